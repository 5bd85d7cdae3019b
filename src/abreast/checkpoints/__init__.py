"""Checkpoints: what a training needs to go on exactly where it was, on any number of devices.

The files alone, without Keras: `snapshot`, `write`, `read`, `folder`, and below them `tensor_file`, `manifest`, `values`,
`dtypes`, `lock` and `files`. The format is specified in `docs/reference/checkpoint-format.md`.
"""
