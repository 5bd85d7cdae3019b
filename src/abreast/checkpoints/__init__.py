"""Checkpoints: what a training needs to go on exactly where it was, on any number of devices.

Which `fit` goes on from which checkpoint: `which_fit`. When one is written: `fit`, `agreement`, `policy`, `stop`. What it holds:
`moment`, `variables`, `optimizers`, `generators`, `place`, `passed`, `callback_state`, `reached`, `other_variables`,
`model_attributes`, `plain`. Whether it is of the same training:
`fingerprint`. What users see: `callback`, `command`, `options`, `restarts`.

The files alone, without Keras: `snapshot`, `write`, `read`, `folder`, and below them `tensor_file`, `manifest`, `values`,
`dtypes`, `lock` and `files`. The format is specified in `docs/reference/checkpoint-format.md`.
"""
