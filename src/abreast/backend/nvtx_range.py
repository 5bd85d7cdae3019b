"""One open range at a time on the NVTX timeline, which NVIDIA's Nsight Systems shows beside the kernels.

For the backends without NVTX of their own, through the package `nvtx` where it is installed. Imports no framework.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


class NvtxRange:
    """Does nothing unless `is_on` and the package is there."""

    def __init__(self, is_on: bool) -> None:
        self._nvtx: Any = None
        self._is_open = False
        if is_on and importlib.util.find_spec("nvtx") is not None:
            self._nvtx = importlib.import_module("nvtx")

    def begin(self, name: str) -> None:
        """Begin a range, after the end of the one before."""
        self.end()
        if self._nvtx is not None:
            self._nvtx.push_range(name)
            self._is_open = True

    def end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._nvtx.pop_range()
