"""What Keras users do, one short script each, run plainly and placed: the same result, an error by name, or a warning.

A new habit is one file under `scripts/<theme>/`. It is an ordinary script: it runs as `__main__`, in an empty folder, and
leaves in `result` what is compared: models, histories, numbers, arrays, texts, nested as it likes. `catalogue.py` says what
constants it may begin with. `run.py` runs one in a worker, `verdict.py` judges, `sweep.py` runs all of them, and `page.py`
makes `docs/reference/habits.md` of what the sweep found.
"""
