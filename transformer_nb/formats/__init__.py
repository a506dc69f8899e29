"What is written for others: the page, CTranslate2, Marian"
