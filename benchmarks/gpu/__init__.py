"""`make gpu`: everything that needs a real GPU, in one command with a time budget. `__main__.py` is the command.

`catalogue.py` lists the parts, `parts/` has a file for each, `machine.py` describes the machine, `runner.py` runs
each part in its own process, `programs.py` starts commands for parts, `rows.py` and `table.py` keep and print the results,
`wheels.py` collects missing packages.
"""
