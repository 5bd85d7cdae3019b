"""The doctor: where the time of a `fit` goes, found out by experiments, and what to do about it.

`diagnose.py` has the order; `call.py` the fit as data; `trials.py`, `source_alone.py`, `stacks.py` and `once.py` measure;
`remedies.py` says what is tried; `facts.py` is what was measured; `findings.py` and `input_findings.py` are the rules;
`verdict.py` and `report.py` say it. Imports no framework.
"""
