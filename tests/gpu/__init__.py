"""`make gpu` without a GPU: its machinery with planted parts, its verdicts on planted facts, and its bodies on the CPU."""
