"""Names of checkpoints, made of the numbers of fit, epoch and step. Sorted as text, they are in order of time."""

from __future__ import annotations

_FINAL = "-final"


def name_of(fit: int, epoch: int, steps: int) -> str:
    """The name of a checkpoint after `steps` steps of an epoch, both counted from 0."""
    return f"{prefix_of(fit)}{epoch:06d}-{steps:09d}"


def final_name_of(fit: int, epoch: int) -> str:
    """The name of the last state of a `fit` that has ended after so many epochs."""
    return f"{name_of(fit, epoch, 0)}{_FINAL}"


def prefix_of(fit: int) -> str:
    return f"fit{fit:04d}-"


def is_final(name: str) -> bool:
    return name.partition(".")[0].endswith(_FINAL)
