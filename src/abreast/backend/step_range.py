"""Names of steps for a framework's profiler and for NVIDIA's Nsight Systems, which shows them beside the kernels.

Nsight Systems gets them through the package `nvtx`, if that is installed. Imports no framework.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class StepRange:
    """The range of the present step. `annotate(number)` returns the profiler's context for a step; NVTX only on a GPU."""

    def __init__(self, annotate: Callable[[int], AbstractContextManager[Any]], on_gpu: bool) -> None:
        self._annotate = annotate
        self._step: AbstractContextManager[Any] | None = None
        self._nvtx: Any = None
        if on_gpu and importlib.util.find_spec("nvtx") is not None:
            self._nvtx = importlib.import_module("nvtx")

    def begin(self, number: int) -> None:
        """End the previous step, if it has not ended, and begin a step."""
        self.end()
        if self._nvtx is not None:
            self._nvtx.push_range(f"step {number}")
        self._step = self._annotate(number)
        self._step.__enter__()

    def end(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)
            if self._nvtx is not None:
                self._nvtx.pop_range()
