"""`abreast bench`: cases as data, each measured in a fresh process, into JSON lines; lines into tables, figures and a page.

Not here: what the measuring means for a machine that nobody has (`plan/`), and where the time of one training goes
(`measure/`). Importing this loads neither Keras nor a framework.
"""
