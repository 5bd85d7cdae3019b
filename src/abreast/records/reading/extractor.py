"""`extract`: the images and columns of a packed data set as plain files."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.plain_json import finite
from abreast.records.reading.reader import Records, Sample

SAMPLES = "samples.jsonl"
_PART = SAMPLES + ".part"  # the file's name until it is complete


def extract(folder: str | PathLike[str], dest: str | PathLike[str]) -> int:
    """Write each image into a file named by its key, and the columns into `samples.jsonl`. Returns the number of samples.

    Numbers that are not finite become `null`, and bytes become text in Base64. After any error `dest` is as it was before.

    Args:
        folder: the folder that `pack` made.
        dest: a folder that is empty or does not exist yet.

    Raises:
        DataError: the data set is damaged, or `dest` cannot be written.

    Example:
        >>> import numpy as np
        >>> from pathlib import Path
        >>> from abreast.records import extract, pack
        >>> summary = pack((np.zeros((2, 8, 8, 3), np.uint8), [7, 8]), "digits.pack")
        >>> extract("digits.pack", "files")
        2
        >>> sorted(path.name for path in Path("files").iterdir())
        ['00000000.jpg', '00000001.jpg', 'samples.jsonl']
    """
    target = Path(fspath(dest))
    with Records(folder) as records:
        try:
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise DataError(f"{target} is not an empty folder", "name a folder that is empty or does not exist yet")
            with _all_or_nothing(target) as made:
                _extract(records, target, made)
        except OSError as error:
            raise DataError(f"cannot write {error.filename or target}: {error.strerror}") from error
        return len(records)


@contextlib.contextmanager
def _all_or_nothing(target: Path) -> Iterator[set[str]]:
    """Make the folder. If the block fails, remove the files whose names it added to the set, and the new folders."""
    new = [path for path in (target, *target.parents) if not path.exists()]
    made: set[str] = set()
    try:
        target.mkdir(parents=True, exist_ok=True)
        yield made
    except BaseException:
        with contextlib.suppress(OSError):
            for name in made:
                path = target / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            for path in new:
                path.rmdir()
        raise


def _extract(records: Records, target: Path, made: set[str]) -> None:
    """Write all files, and add their names in `target` to `made`. The list of samples gets its name last."""
    made |= {SAMPLES, _PART}
    with _new_file(target / _PART) as lines:
        for sample in records:
            name = f"{sample.key}.{sample.encoding}"
            made.add(name.partition("/")[0])
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with _new_file(target / name) as file:
                file.write(sample.data)
            lines.write(json.dumps(_line(sample, name), ensure_ascii=False, allow_nan=False).encode() + b"\n")
    (target / _PART).rename(target / SAMPLES)


def _new_file(path: Path) -> Any:
    """A new file, opened for writing. A file or link that exists already is an error."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb")


def _line(sample: Sample, name: str) -> dict[str, Any]:
    columns = {column: _plain(value) for column, value in sample.columns.items()}
    return {"key": sample.key, "file": name, "columns": columns}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return finite(value.tolist()) if isinstance(value, np.ndarray | np.generic) else value
