"""The check that a script is exact: it runs with plain Keras and placed on devices, and all computed values are compared.

`command.py` is `abreast check`; `model.py` is the function `abreast.check`, which is why this package is not named `check`.
A side (one of the two runs) is `side.py`, started by `process.py`. `recorder.py`, `batches.py` and `facts.py` record a side, and
`log.py` stores the record. `compare.py` finds the first difference, and `reasons.py` its likely reasons. `order.py` runs
all of this, and `verdict.py` is the result.
"""
