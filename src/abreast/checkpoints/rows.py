"""The rows that Keras's `CSVLogger` has written: a restarted `fit` keeps the rows before its checkpoint, and drops later ones.

The logger opens its file again when `fit` begins, and empties it without `append=True`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import keras


def read(callbacks: Sequence[Any]) -> list[str | None]:
    """The text of each logger's file; None for a logger that writes no file in this process."""
    return [_text(each) for each in callbacks if isinstance(each, keras.callbacks.CSVLogger)]


def write(callbacks: Sequence[Any], saved: Sequence[str | None]) -> None:
    """Set the files to that text; the loggers continue after it."""
    loggers = [each for each in callbacks if isinstance(each, keras.callbacks.CSVLogger)]
    for logger, text in zip(loggers, saved, strict=False):
        file = _file(logger)
        if file is not None and text is not None:
            file.flush()
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
            logger.append_header = not text


def _text(logger: Any) -> str | None:
    file = _file(logger)
    if file is None:
        return None
    file.flush()
    with open(logger.filename, newline="") as written:
        return written.read()


def _file(logger: Any) -> Any:
    file = getattr(logger, "csv_file", None)
    return file if isinstance(file, io.TextIOBase) and not file.closed else None
