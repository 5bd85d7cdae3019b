"""Take images and columns out of a packed data set again, as plain files.

Imports `reader` and `errors`.
"""

from __future__ import annotations

import base64
import json
import os
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.reader import Records, Sample

SAMPLES = "samples.jsonl"


def extract(folder: str | PathLike[str], dest: str | PathLike[str]) -> int:
    """Write each image as a file of its key into the new or empty folder `dest`, and the columns to `samples.jsonl`.

    Gives how many there are. Raises `DataError`.
    """
    target = Path(fspath(dest))
    with Records(folder) as records:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError(f"{target} is not an empty folder", "name a folder that is empty or not there yet")
        try:
            target.mkdir(parents=True, exist_ok=True)
            with _new_file(target / SAMPLES) as lines:
                for sample in records:
                    name = f"{sample.key}.{sample.encoding}"
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    with _new_file(target / name) as file:
                        file.write(sample.data)
                    lines.write(json.dumps(_line(sample, name), ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise DataError(f"cannot write {error.filename or target}: {error.strerror}") from error
        return len(records)


def _new_file(path: Path) -> Any:
    """Opened for writing; one that is there already, or a link, is an error."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb")


def _line(sample: Sample, name: str) -> dict[str, Any]:
    columns = {column: _plain(value) for column, value in sample.columns.items()}
    return {"key": sample.key, "file": name, "columns": columns}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
