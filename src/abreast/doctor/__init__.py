"""The doctor: finds by experiments where the time of a `fit` goes, and recommends changes.

`diagnose.py` runs the whole diagnosis; `call.py` holds the fit as data; `trials.py`, `source_alone.py`, `stacks.py` and
`once.py` measure; `remedies.py` lists the changes to try; `facts.py` holds the measurements; `rules.py` and `input_rules.py`
find the causes, and `ranking.py` ranks them; `verdict.py`, `report.py` and `page.py` present the result. Imports no framework.
"""
