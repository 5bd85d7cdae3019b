"""Small packed images, made once per process."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import numpy as np


@functools.cache
def packed() -> str:
    """The folder of 44 packed images with a class each."""
    from abreast.records import pack

    folder = tempfile.mkdtemp(prefix="abreast-test-pictures-")
    pack((np.random.default_rng(0).integers(0, 256, (44, 12, 12, 3), np.uint8), np.arange(44) % 3), folder)
    return folder


def structure(x: Any, y: Any) -> Any:
    """Rows of six numbers as images of the same form."""
    tiled = np.tile(np.clip(x * 40 + 128, 0, 255), (1, 32)).reshape(-1, 8, 8, 3).astype("uint8")
    return tiled, np.clip(y[:, 0], 0, 2).astype("int64")
