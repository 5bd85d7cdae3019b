"""Predict how training scales: throughput, efficiency and bottleneck on devices that nobody has bought yet.

`machine` describes hardware, `models` well-known models, `scenario` one set-up; `closed_form` has the formulas and `simulate`
the event-by-event check of them; `predict` puts them together, `questions` answers what people ask; `report` and `page` show it.
`measured_machine` and `measured_steps` read what `abreast machine` and `abreast bench` wrote. Imports NumPy, and no framework.
"""
