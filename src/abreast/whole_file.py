"""Writes a text file completely or not at all, and checks beforehand whether it can be written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from abreast.errors import AbreastError

_SCRIPTS = (".py", ".ipynb")


def write(what: str, text: str, path: str | os.PathLike[str]) -> None:
    """Write the whole file or nothing. Raises `AbreastError` if it cannot be written; `what` names the text in the message."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise AbreastError(f"cannot write {what} to {path}: it is not a file", "give the name of a file")
    # A short name: the target's own name with a suffix could be too long for the file system.
    part = target.with_name(f".abreast-{secrets.token_hex(6)}")
    try:
        try:
            with part.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise AbreastError(
            f"cannot write {what} to {path}: {error.strerror or error}",
            "give a file in a folder that exists, that you may write to, and that has room",
        ) from error


def writable(path: str) -> Path:
    """The absolute path of `path`, resolved now, because a script may change the working directory later.

    Raises `AbreastError` if `write` could not write it, so that the user knows before a command that takes minutes.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not path or (target.exists() and not target.is_file()):
        raise AbreastError(f"cannot write to {path!r}: it is not a file", "give the name of a file")
    if not folder.is_dir():
        raise AbreastError(f"cannot write to {path}: there is no folder {folder}", "make the folder first")
    if target.suffix in _SCRIPTS and target.exists():
        raise AbreastError(f"cannot write to {path}: that would replace a script", "give another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AbreastError(f"cannot write to {path}: no permission in {folder}", "give a file in a folder of your own")
    return target
