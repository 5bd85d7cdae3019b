"""The number of steps that a diagnosis measures. Imports `errors`."""

from __future__ import annotations

from typing import Any

from abreast.errors import DataError

LEAST_STEPS = 5


def check_steps(steps: Any) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < LEAST_STEPS:
        raise DataError(f"steps={steps!r}", f"ask for at least {LEAST_STEPS} steps")
