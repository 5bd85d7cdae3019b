"""What Keras users do, one short script each, with plain Keras and placed: the same result, an error by name, or a warning.

A new habit is one file under `scripts/<theme>/`. It is an ordinary script: it runs as `__main__`, in an empty folder, and
puts into `result` what is compared: models, histories, numbers, arrays, texts, nested in any way. `catalogue.py` documents the
constants that it may begin with. `run.py` runs one in a worker, `verdict.py` judges, `sweep.py` runs all of them, and `page.py`
makes `docs/reference/habits.md` from the results of the sweep.
"""
