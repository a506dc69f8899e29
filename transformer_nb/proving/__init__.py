"The engine: `draw` calls, `match` parameters, `compare`, and tell `when` and `where`"
