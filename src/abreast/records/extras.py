"""The packages of `abreast[images]` and `abreast[parquet]`, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from abreast.errors import DataError
from abreast.installing import install_command

# The modules that every data set needs, with the package to install for each.
PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "google_crc32c": "google-crc32c",
    "simplejpeg": "simplejpeg",
}
_OTHERS = {"pyarrow": "parquet"}  # modules that some sources need, each with its extra of abreast


def extra(module: str) -> Any:
    """The imported module. Raises `DataError`, which names the package to install, when it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name != top:
            raise
        hint = install_command(_OTHERS.get(top, "images"))
        needed = f"this source needs {top}" if top in _OTHERS else f"image records need {PACKAGES[top]}"
        raise DataError(f"{needed}, which is not installed", hint) from None
