"""Records the compared values: before each `fit` of a script the state of its model, and after it the state and `History`.

At the end of the script, it records the state of each fitted model. A log keeps only samples of large values, so a digest of all
bytes is kept, too.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from abreast.checking.log import LogWriter
from abreast.checking.state import Arrays, numbers_of, state_of
from abreast.replacing import replaced
from abreast.torture.notes import NoteWriter


class EndRecorder:
    """Writes events of the kinds "begin", "history" and "end" to a log."""

    def __init__(self, log: LogWriter, notes: NoteWriter) -> None:
        self._log, self._notes = log, notes
        self._models: list[Any] = []
        self._num_fits = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        trainer: Any = keras.Model
        with replaced(trainer, "fit", self._recorded(trainer.fit)):
            yield

    def end(self) -> None:
        """Record all fitted models, and close the log."""
        for number, model in enumerate(self._models):
            self._add("end", f"{model.name} (model {number + 1})", state_of(model))
        self._log.close()

    def _recorded(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            self._num_fits += 1
            call = f"fit {self._num_fits} of {model.name}"
            self._add("begin", call, state_of(model))
            self._notes.add("fit", self._num_fits)
            history = plain(model, *args, **kwargs)
            self._notes.add("fit ended", self._num_fits)
            self._add("history", call, _numbers(model.history) | state_of(model))
            if not any(model is each for each in self._models):
                self._models.append(model)
            return history

        return fit

    def _add(self, kind: str, call: str, arrays: Mapping[tuple[str, str], Any]) -> None:
        self._log.add(kind, call, arrays, batch=_digest(arrays))


def _numbers(history: Any) -> Arrays:
    return {("log", "epoch"): np.asarray(history.epoch, "float64"), **numbers_of(history.history)}


def _digest(arrays: Mapping[tuple[str, str], Any]) -> str:
    sha256 = hashlib.sha256()
    for (group, name), array in arrays.items():
        sha256.update(f"{group} {name} {array.shape} {array.dtype}".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()
