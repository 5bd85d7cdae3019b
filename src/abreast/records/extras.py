"""The packages of `abreast[images]`, imported when they are first needed.

Imports `errors`.
"""

from __future__ import annotations

import importlib
from typing import Any

from abreast.errors import DataError

# A module of each, and what one installs for it.
PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "google_crc32c": "google-crc32c",
    "simplejpeg": "simplejpeg",
}


def extra(module: str) -> Any:
    """The module. Raises `DataError` with what to install when it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name != top:
            raise
        hint = 'pip install "abreast[images]"'
        raise DataError(f"image records need {PACKAGES[top]}, which is not installed", hint) from None
