"""Predictions of how training scales: throughput, efficiency and bottleneck on devices that are not bought yet.

`machine` describes hardware, `models` well-known models, `setup` a planned training, `scenario` the same as plain numbers.
`simulate` finds the time of the exchange, `terms` all other parts of a step, and `predict` combines them. `questions` answers
users' questions; `report` and `page` show the result. `measured_machine` and `measured_steps` read the files of `abreast machine`
and `abreast bench`. No framework is loaded. Other systems, and the accuracy of the predictions for them: `benchmarks/`.
"""
