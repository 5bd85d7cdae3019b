"""Predict how training scales: throughput, efficiency and bottleneck on devices that are not bought yet.

`machine` describes hardware, `models` well-known models, `setup` a training as the user plans it, `scenario` the same as plain
numbers. `simulate` finds the time of the exchange, `terms` all other parts of a step, `predict` puts them together. `questions`
answers what users ask; `report` and `page` show it. `measured_machine` and `measured_steps` read the files of `abreast machine`
and `abreast bench`. No framework is loaded. The systems of others, and how well the model predicts them: `benchmarks/`.
"""
