"""Is a script exact? It runs once with plain Keras and once placed on devices, and everything that it computes is compared.

`command.py` is `abreast check`; `model.py` is the function `abreast.check`, which is why this package is not named `check`.
A side (one of the two runs) is `side.py`, started by `process.py`. `recorder.py`, `batches.py` and `facts.py` record what it
does, and `log.py` stores that. `compare.py` finds the first difference, and `reasons.py` its likely reasons. `order.py` runs
all of this, and `verdict.py` is the result.
"""
