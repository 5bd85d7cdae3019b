"""The packages of `abreast[images]` and `abreast[parquet]`, imported when they are first needed.

Imports `errors`.
"""

from __future__ import annotations

import importlib
from typing import Any

from abreast.errors import DataError

# A module of each that every data set needs, and what one installs for it.
PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "google_crc32c": "google-crc32c",
    "simplejpeg": "simplejpeg",
}
_OTHERS = {"pyarrow": "parquet"}  # and what brings them


def extra(module: str) -> Any:
    """The module. Raises `DataError` with what to install when it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name != top:
            raise
        hint = f'pip install "abreast[{_OTHERS.get(top, "images")}]"'
        needed = f"this source needs {top}" if top in _OTHERS else f"image records need {PACKAGES[top]}"
        raise DataError(f"{needed}, which is not installed", hint) from None
