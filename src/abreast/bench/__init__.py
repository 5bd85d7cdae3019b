"""`abreast bench`: cases as data, each measured in a fresh process, into JSON lines; lines into tables, figures and a page.

Not here: predictions for other machines (`plan/`), and the analysis of one training's time (`timeline/`, `doctor/`). Importing
this package loads neither Keras nor a framework.
"""
