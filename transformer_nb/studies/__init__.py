"What chapters 16 to 22 export: studies made with the library, which needs none of them"
