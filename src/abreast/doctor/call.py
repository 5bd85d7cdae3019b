"""One `fit` as data: its model, its source and its settings, and the arguments of every shorter `fit` that the doctor runs.

Here: the kind of the source, its repeated reading, and changes of a batch (repeat it, double it, send it as `uint8`).
Not here: timing (`trials.py`) and the choice of changes (`remedies.py`).
"""

from __future__ import annotations

import inspect
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import tree

from abreast.arrays import arrays_of, map_arrays
from abreast.checkpoints.callback import Checkpoint
from abreast.errors import DataError, ModelError, a_type
from abreast.feed import cut_validation, torch_loader
from abreast.keras_private.data_adapters import (
    ArrayDataAdapter,
    GeneratorDataAdapter,
    PyDatasetAdapter,
    TorchDataLoaderAdapter,
)
from abreast.keras_private.data_adapters import registry as data_adapters

# More epochs than any trial runs.
_ENDLESS = 10**9
_SKIPPED_CALLBACKS = (
    Checkpoint,
    *(
        kind
        for name in ("BackupAndRestore", "OrbaxCheckpoint")
        if (kind := getattr(keras.callbacks, name, None)) is not None
    ),
)
# At most this many bytes of arrays are converted, in at least this many batches.
_CHANGED_BYTES = 512 << 20
_CHANGED_BATCHES = 8
_BATCH_SIZE = 32  # Keras's default
# More batches than a feed holds at its usual depth.
_RING = 6


class SourceEnded(DataError):
    """A generator ended before the diagnosis had read enough batches."""


@dataclass
class FitCall:
    """The arguments of `fit`, by name, with `validation_split` already applied. `kind` is the kind of the source."""

    model: Any
    arguments: dict[str, Any]
    kind: str = ""  # "arrays", "generator", "py_dataset", "torch" or "other"
    batches_read: int = field(default=0, init=False)

    @staticmethod
    def of(model: Any, *args: Any, **kwargs: Any) -> FitCall:
        """Bind the arguments of `model.fit`. Raises `TypeError` as `fit` would, `ModelError`, `DataError`."""
        if not isinstance(model, keras.Model):
            raise ModelError(f"diagnose needs a keras.Model, not {a_type(model)}", "give the model to train")
        bound = inspect.signature(keras.Model.fit).bind(model, *args, **kwargs)
        bound.apply_defaults()
        if not model.compiled:
            raise ModelError("the model is not compiled", "call model.compile with an optimizer and a loss first")
        arguments = dict(bound.arguments)
        arguments.pop("self")
        if arguments["x"] is None:
            raise DataError("there is no data", "give the arguments of fit: diagnose(model, x, y, batch_size=...)")
        cut_validation(arguments)
        call = FitCall(model, arguments)
        call._settle_source()
        return call

    @property
    def callbacks(self) -> list[Any]:
        """The user's callbacks, without those that would resume from an interrupted run's checkpoint, and then delete it."""
        given = self.arguments["callbacks"]
        if isinstance(given, keras.callbacks.CallbackList):
            given = given.callbacks
        return [each for each in tree.flatten(given) if each is not None and not isinstance(each, _SKIPPED_CALLBACKS)]

    def fit_arguments(self, **changes: Any) -> dict[str, Any]:
        """Arguments of a `fit` without validation that runs until a callback ends it. Each `fit` needs new ones."""
        arguments = {**self.arguments, "epochs": _ENDLESS, "initial_epoch": 0, "callbacks": self.callbacks}
        arguments |= {"validation_data": None, "validation_split": 0.0, "x": self.source()}
        return arguments | changes

    def source(self) -> Any:
        """The source for one more reading. A `PyDataset` continues where the last reading ended."""
        x = self.arguments["x"]
        if self.kind == "py_dataset":
            return _ContinuedDataset(self, x)
        return x.again() if isinstance(x, _SharedGenerator) else x

    def adapter(self) -> Any:
        """Keras's data adapter of the source, made in the same way as by `fit`."""
        names = ("y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` itself gives the same warnings
            return data_adapters.get_data_adapter(x=self.source(), **{name: self.arguments[name] for name in names})

    def with_batch(self, batch: Any, **changes: Any) -> dict[str, Any]:
        """Arguments of a `fit` on one batch, repeated without end."""
        nothing = {"y": None, "sample_weight": None, "class_weight": None, "batch_size": None, "shuffle": False}
        return self.fit_arguments(x=_repeat(batch), steps_per_epoch=None, **nothing, **changes)

    def can_have_rows(self, rows: int) -> bool:
        """True if `batch_size` sets the rows of a batch, and the arrays have at least `rows` rows."""
        return self.kind == "arrays" and rows <= self._num_rows()

    def with_batch_rows(self, rows: int) -> dict[str, Any]:
        """Arguments of a `fit` with another batch size."""
        return self.fit_arguments(batch_size=rows, steps_per_epoch=None)

    @property
    def num_workers(self) -> int | None:
        """Number of workers of the source; None if it cannot be raised."""
        x = self.arguments["x"]
        if self.kind == "py_dataset":
            return None if x.use_multiprocessing else int(x.workers)
        can_have_more = self.kind == "torch" and torch_loader.can_have_more_workers(x)
        return torch_loader.num_workers(x) if can_have_more else None

    @property
    def reads_in_processes(self) -> bool:
        x = self.arguments["x"]
        if self.kind == "py_dataset":
            return bool(x.use_multiprocessing)
        return self.kind == "torch" and torch_loader.num_workers(x) > 0

    def with_workers(self, workers: int) -> dict[str, Any]:
        """Arguments of a `fit` whose source has this many workers."""
        x = self.arguments["x"]
        if self.kind == "py_dataset":
            return self.fit_arguments(x=_ContinuedDataset(self, x, workers))
        return self.fit_arguments(x=torch_loader.with_workers(x, workers))

    @property
    def ended(self) -> SourceEnded | None:
        """The error of a generator that has ended; None before its end, and for other sources."""
        x = self.arguments["x"]
        return x.ended if isinstance(x, _SharedGenerator) else None

    def with_uint8(self, change: Callable[[Any], Any]) -> dict[str, Any] | None:
        """Arguments of a `fit` on arrays that `change` has converted: all rows, or the first rows of large arrays.

        None if the source is not arrays, or if too few batches would fit into memory.
        """
        if self.kind != "arrays":
            return None
        rows = self._num_rows()
        kept = min(rows, rows * _CHANGED_BYTES // max(1, bytes_of(self.arguments["x"])))
        if kept < rows and kept < _CHANGED_BATCHES * (self.arguments["batch_size"] or _BATCH_SIZE):
            return None
        names = ("x", "y", "sample_weight")
        first = {name: map_arrays(lambda leaf: leaf[:kept], self.arguments[name]) for name in names}
        return self.fit_arguments(**first | {"x": change(first["x"])})

    def mean_rows(self) -> float | None:
        """Mean rows of a batch over an epoch of arrays; None for other sources."""
        return self._num_rows() / self.adapter().num_batches if self.kind == "arrays" else None

    def _num_rows(self) -> int:
        return min(len(leaf) for leaf in tree.flatten(self.arguments["x"]) if leaf is not None)

    def _settle_source(self) -> None:
        x = self.arguments["x"]
        if inspect.isgenerator(x) or (isinstance(x, Iterator) and not hasattr(x, "__len__")):
            self.arguments["x"] = _SharedGenerator(x)
            self.kind = "generator"
            return
        kinds = {
            ArrayDataAdapter: "arrays",
            PyDatasetAdapter: "py_dataset",
            TorchDataLoaderAdapter: "torch",
            GeneratorDataAdapter: "generator",
        }
        adapter = self.adapter()
        self.kind = next((kind for known, kind in kinds.items() if isinstance(adapter, known)), "other")
        if adapter.num_batches == 0:
            raise DataError("the data source is empty", "give at least one row")


class _SharedGenerator:
    """A generator that many trials read in turn. Each trial continues where the last one ended."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._lock = threading.Lock()  # the reader thread of an earlier trial may still be inside `next`
        self._num_read = 0
        self.ended: SourceEnded | None = None

    def again(self) -> Iterator[Any]:
        while True:
            with self._lock:
                try:
                    batch = next(self._batches)
                except StopIteration:
                    break
                self._num_read += 1
            yield batch
        if not self._num_read:
            raise DataError("the data source is empty", "check what the generator yields")
        self.ended = SourceEnded(
            f"the generator ended after {self._num_read} batches, and a diagnosis needs more",
            "use a generator that does not end, or ask for fewer steps",
        )
        raise self.ended


class _ContinuedDataset(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    """A `PyDataset` that starts at the first batch that no trial has read, and wraps around at its end.

    So each trial reads new files.
    """

    def __init__(self, call: FitCall, inner: Any, workers: int | None = None) -> None:
        super().__init__(
            workers=inner.workers if workers is None else workers,
            use_multiprocessing=inner.use_multiprocessing,
            max_queue_size=max(inner.max_queue_size, workers or 0),
        )
        self._inner, self._first, self._call = inner, call.batches_read, call
        self._lock = threading.Lock()
        self._num_made, self._begin, self._end = 0, math.inf, 0.0

    def __getitem__(self, index: int) -> Any:
        number = self._first + index
        self._call.batches_read = max(self._call.batches_read, number + 1)
        size = self._inner.num_batches
        self._begin = min(self._begin, time.perf_counter())
        batch = self._inner[number if size is None else number % size]
        with self._lock:
            self._num_made, self._end = self._num_made + 1, time.perf_counter()
        return batch

    @property
    def seconds_per_batch(self) -> float | None:
        """Seconds per batch made in the last epoch, counting batches that were not used; None if other processes made them."""
        return (self._end - self._begin) / self._num_made if self._num_made else None

    @property
    def num_batches(self) -> int | None:
        size: int | None = self._inner.num_batches
        return size

    def on_epoch_begin(self) -> None:
        self._num_made, self._begin = 0, math.inf
        self._inner.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self._inner.on_epoch_end()


def _repeat(batch: Any) -> Iterator[Any]:
    """Copies of a batch, in a ring. A feed that gets one buffer again and again would copy every batch."""
    ring = [map_arrays(np.array, batch) for _ in range(_RING)]
    while True:
        yield from ring


def rows_of(batch: Any) -> int:
    return int(arrays_of(batch)[0].shape[0])


def bytes_of(batch: Any) -> int:
    return sum(int(np.asarray(leaf).nbytes) for leaf in arrays_of(batch))


def shapes_of(batch: Any) -> tuple[str, ...]:
    return tuple("x".join(map(str, leaf.shape)) for leaf in arrays_of(batch))


def with_rows(batch: Any, rows: int) -> Any:
    """A batch with `rows` rows: its own rows, repeated as often as needed."""
    own = rows_of(batch)
    order = np.arange(rows) % own
    return map_arrays(lambda leaf: np.asarray(leaf)[order], batch)


def on_host(batch: Any) -> Any:
    """Copies of any framework's tensors as NumPy arrays; a PyTorch loader's list becomes the tuple that `fit` expects."""
    batch = tuple(batch) if isinstance(batch, list) else batch
    return map_arrays(np.array, batch)
