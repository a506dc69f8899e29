"""The engine: anybody's part beside ours, on drawn calls

    part = Part('attention', {'': dict(query=Numbers('b h t k'), …, mask=Mask('b h t s'))})
    found = compare(part, theirs, ours) # .differences, .passed, .failed (numbers of cases)
    when_of(found)                      # in words: 'in each case where there is a mask …'
    where(traced(part, theirs, n, step, …), traced(part, ours, n, step, …)) # a `Place`

`draw` says what may be called, `compare` what a call does, `match` whose parameter is
which, `when` and `where` what to tell of a difference."""
