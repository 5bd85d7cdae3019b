"""Keras's published examples from a clone of keras-io that `KERAS_IO` names, with invented data, with plain Keras and placed.

`catalogue.py` names the examples, `play.py` is the script that runs one, with `made_up.py` in place of downloads and
`stand_ins.py` in place of code that takes long or draws numbers; `runs.py` starts both sides and compares them.
"""
