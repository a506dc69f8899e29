"What a submission's files do together, without any of the right ones"
TOGETHER = []
