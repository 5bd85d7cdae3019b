"""Keep TensorFlow off the GPUs in a process that uses it only for tf.data: it would allocate all GPU memory.

This module does not import TensorFlow, which the process may import later, or never.
"""

from __future__ import annotations

import contextlib
from typing import Any

from abreast.after_import import after_import


def keep_off_gpus() -> None:
    """Hide the GPUs from TensorFlow, now or when it is imported. Further calls do nothing."""
    after_import("tensorflow", _hide_gpus)


def _hide_gpus(tensorflow: Any) -> None:
    with contextlib.suppress(RuntimeError):  # TensorFlow has started: its devices can no longer be changed
        tensorflow.config.set_visible_devices([], "GPU")
