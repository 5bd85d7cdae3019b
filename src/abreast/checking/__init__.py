"""Is a script exact? It runs with plain Keras and placed on devices, and everything that it computed is compared.

`command.py` is `abreast check`, `model.py` the function `abreast.check` (so the package has another name). A side runs in
`side.py`, started by `process.py`; `recorder.py`, `batches.py` and `facts.py` see what it does, and `log.py` keeps it.
`compare.py` finds the first difference, `reasons.py` says why, `order.py` what runs when, and `verdict.py` is what comes out.
"""
