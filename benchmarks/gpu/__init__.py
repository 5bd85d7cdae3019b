"""`make gpu`: everything that needs a real GPU, in one command with a time budget. `__main__.py` is the command.

Here: `catalogue.py` lists the parts, `parts/` has a file for each, `machine.py` knows what the machine has, `runner.py` gives
each part its process, `rows.py` and `table.py` keep and print the results, `wheels.py` brings missing packages along.
"""
