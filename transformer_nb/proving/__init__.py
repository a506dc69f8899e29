"The engine: `draw` a part's calls, `match` parameters, `compare`, and tell `when` and `where`"
