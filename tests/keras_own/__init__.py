"""Keras's own tests, out of the installed wheel, with every model placed on simulated devices.

`plugin.py` is loaded into a pytest process of its own, `runs.py` starts such processes, `exceptions.py` names the tests that
cannot pass, `measure.py` keeps figures and `page.py` makes a page of them.
"""
