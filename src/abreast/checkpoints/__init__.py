"""Checkpoints: the state from which a training continues exactly where it was, on any number of devices.

The checkpoint that a `fit` continues from: `which_fit`. The times of writing: `fit`, `agreement`, `policy`, `stop`. The content:
`moment`, `variables`, `optimizers`, `generators`, `place`, `passed`, `callback_state`, `reached`, `other_variables`,
`model_attributes`, `part_attributes`, `compiled_step`, `plain`. The check that a checkpoint belongs to the same training:
`fingerprint`. The user's side: `callback`, `command`, `options`, `restarts`.

The files alone, without Keras: `snapshot`, `write`, `read`, `folder`, and below them `tensor_file`, `manifest`, `values`,
`dtypes`, `lock` and `files`. The format is specified in `docs/reference/checkpoint-format.md`.
"""
