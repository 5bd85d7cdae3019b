"""The test for an extension module that is being initialized: its C++ may abort if Python code that it calls raises an error."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader
from types import FrameType


def initializes_extension(frame: FrameType | None) -> bool:
    """Whether a frame runs below the import of an extension module, such as `jaxlib._jax`."""
    while frame is not None:
        is_load = frame.f_code.co_name in ("create_module", "exec_module")
        if is_load and isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
            return True
        frame = frame.f_back
    return False
