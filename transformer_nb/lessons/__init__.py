"Small models and tasks that chapters 00 to 07a teach with"
