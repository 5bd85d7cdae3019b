"""Writes a text as a whole file or not at all. Imports `errors`."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from abreast.errors import AbreastError


def write(what: str, text: str, path: str | os.PathLike[str]) -> None:
    """`what` names the text in the `AbreastError` that is raised where it cannot be written."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise AbreastError(f"cannot write {what} to {path}: it is not a file", "give the name of a file")
    # A short name of its own: a long one with something added could be too long for the file system.
    part = target.with_name(f".abreast-{secrets.token_hex(6)}")
    try:
        try:
            with part.open("x", encoding="utf-8") as file:
                file.write(text)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise AbreastError(
            f"cannot write {what} to {path}: {error.strerror or error}",
            "give a file in a folder that exists, that you may write to, and that has room",
        ) from error
