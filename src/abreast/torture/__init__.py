"""`abreast torture`: runs a script again and again with faults, and compares its end with that of an undisturbed run.

`command` has the options, `campaign` the order of all runs, `rounds` one training with faults, `faults` each fault from outside.
`side` is the process that runs the script; there, `file_faults` makes faults in file calls, and `ends` records the result.
"""
