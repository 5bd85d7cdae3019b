"""The steps of one call of Keras: several with `steps_per_execution`, fewer where the source ends. Imports no framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def results_of(step: Callable[[], Result], most: int) -> list[Result]:
    """The results of `most` steps, or of the remaining ones. Raises `StopIteration` if none remains."""
    results: list[Result] = []
    try:
        while len(results) < most:
            results.append(step())
    except StopIteration:
        if not results:
            raise
    return results
