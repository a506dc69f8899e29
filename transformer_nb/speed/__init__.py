"What is there for speed alone, each swap proved equal"
