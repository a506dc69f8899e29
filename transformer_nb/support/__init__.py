"Files, messages, figures, several processes: what every room shares"
