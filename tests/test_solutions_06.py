"Solutions to the exercises of chapter 06."

def rate_constant_after(step_num, peak, warmup_steps): return peak * min(step_num / warmup_steps, 1)

def test_rate_constant_after(): assert [rate_constant_after(n, 1., 4) for n in (1, 2, 4, 8)] == [0.25, 0.5, 1, 1]
