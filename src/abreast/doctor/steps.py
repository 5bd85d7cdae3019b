"""The number of steps that a diagnosis measures, and its check."""

from __future__ import annotations

from typing import Any

from abreast.errors import DataError

LEAST_STEPS = 5


def check_steps(steps: Any) -> None:
    """Raise `DataError` unless `steps` is a valid number of steps."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < LEAST_STEPS:
        raise DataError(f"steps={steps!r} is not allowed", f"ask for at least {LEAST_STEPS} steps")
