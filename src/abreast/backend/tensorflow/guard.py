"""Keep TensorFlow off the GPUs in a process where it only serves tf.data: it would take all of their memory.

This module does not import TensorFlow, which the process may import later, or never.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def keep_off_gpus() -> None:
    """Hide the GPUs from TensorFlow, now or when it is imported. Further calls do nothing."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and hasattr(tensorflow, "config"):
        _hide_gpus(tensorflow)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _hide_gpus(tensorflow: Any) -> None:
    with contextlib.suppress(RuntimeError):  # TensorFlow has started: its devices can no longer be changed
        tensorflow.config.set_visible_devices([], "GPU")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow as Python would; its loader hides the GPUs after loading."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _call_afterwards(spec.loader)
        return spec


def _call_afterwards(loader: Any) -> None:
    plain = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        plain(module)
        _hide_gpus(module)

    loader.exec_module = exec_module
