"""Where `abreast doctor` will write its files, found out before the minutes that a diagnosis takes. Imports `errors`."""

from __future__ import annotations

import os
from pathlib import Path

from abreast.errors import AbreastError


def writable(path: str) -> Path:
    """The file that `path` means here and now: a script may go to another folder.

    Raises `AbreastError` where `whole_file.write` could not write it.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not path or (target.exists() and not target.is_file()):
        raise AbreastError(f"cannot write to {path!r}: it is not a file", "give the name of a file")
    if not folder.is_dir():
        raise AbreastError(f"cannot write to {path}: there is no folder {folder}", "make the folder first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AbreastError(f"cannot write to {path}: no permission in {folder}", "give a file in a folder of yours")
    return target
