"""Models that several processes save under one name: each process writes its own file and renames it, so no file is partial.

Not here: files that Keras divides into several (`max_shard_size`, `zipped=False`), and files on other file systems (`gs://`).
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

_ENDINGS = (".weights.h5", ".keras", ".h5", ".hdf5")  # Keras chooses the format by the ending


def install() -> None:
    """Make the methods of Keras's models save complete files."""
    model: Any = keras.Model
    model.save = _whole(model.save)
    model.save_weights = _whole(model.save_weights)


def _whole(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def save(self: Any, filepath: Any, *arguments: Any, **named: Any) -> Any:
        part = _beside(filepath) if _is_one_file(*arguments, **named) else None
        if part is None:
            return plain(self, filepath, *arguments, **named)
        try:
            plain(self, str(part), *arguments, **named)
            part.replace(os.path.realpath(filepath))
        finally:
            part.unlink(missing_ok=True)

    return save


def _is_one_file(
    overwrite: Any = True,
    divided: Any = None,
    *,
    zipped: Any = None,
    max_shard_size: Any = None,
    include_optimizer: Any = True,
    save_format: Any = None,
    **others: Any,
) -> bool:
    """Whether Keras, with these arguments, writes one file without a question. `divided`: `zipped` or `max_shard_size`."""
    return bool(overwrite) and divided is None and zipped in (None, True) and max_shard_size is None and not others


def _beside(path: Any) -> Path | None:
    """A new file beside `path`; None if Keras must write `path` itself, or report that it cannot."""
    ending = next((each for each in _ENDINGS if str(path).endswith(each)), None)
    if not isinstance(path, str | os.PathLike) or ending is None or "://" in str(path):
        return None
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        return None
    return target.with_name(f".abreast-{secrets.token_hex(6)}{ending}")
