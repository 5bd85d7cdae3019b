"""Bodies of the tests of the place in a source; they run in a worker. A first run reads a source, and a second goes on in it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import keras
import numpy as np

from abreast.backend import current_backend
from abreast.feed import Part, Source, array_parts
from abreast.feed.jump import begin_at
from abreast.keras_private.data_adapters import array_order, array_reader

Made = Callable[[], Any]  # makes a source: in the second run, a new process would do so
X = np.arange(22, dtype="float32").reshape(11, 2)


def generators() -> Callable[[], None]:
    """A function that puts the global random generators back as they are now."""
    python, numpy = random.getstate(), np.random.get_state()
    torch: Any = sys.modules.get("torch")
    on_cpu = None if torch is None else torch.get_rng_state()

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(on_cpu)

    return put_back


def draw() -> list[float]:
    """Draw from the global generators, as validation does between two epochs."""
    torch: Any = sys.modules.get("torch")
    return [random.random(), float(np.random.random()), 0.0 if torch is None else float(torch.rand(()))]


class Run:
    """A process that opens a source."""

    def __init__(self, make: Made, begin_of: Any = None, **options: Any) -> None:
        keras.utils.set_random_seed(7)
        source = Source(make(), options, begin_of or current_backend().source)
        self.adapter = source.open()
        self.begin = source.begin(self.adapter)


def values(batch: Any) -> Any:
    if isinstance(batch, Part):
        return [values(batch.data), batch.rows, batch.held, batch.digest]
    return keras.tree.map_structure(lambda leaf: None if leaf is None else np.asarray(leaf).tolist(), batch)


def first_and_second(make: Made, nums: list[int], epoch: int = 0, **options: Any) -> list[Any]:
    """For each number: whether the second run has the rest of the batches and the draws after it; the numbers; the note."""
    found = []
    for num_batches in nums:
        first = Run(make, **options)
        for _ in range(epoch):
            list(first.begin())
        when_made = generators()
        batches = first.begin()
        draw()
        before_first = generators()
        for _ in range(num_batches):
            next(batches)
        now = generators()
        expected = [values(batch) for batch in batches], draw()
        second = Run(make, **options)
        when_made()
        jumped, note = begin_at(second.adapter, second.begin, num_batches, before_first)
        now()
        rest = [values(batch) for batch in jumped], draw()
        found.append([rest == expected, len(rest[0]), note])
    return found


def arrays(shuffle: Any, nums: list[int]) -> list[Any]:
    return first_and_second(lambda: X, nums, y=X[:, 0], batch_size=4, shuffle=shuffle)


def generator(nums: list[int]) -> list[Any]:
    """A generator that draws an order when it begins, and an offset for each batch."""

    def rows() -> Iterator[Any]:
        order = np.random.permutation(5)
        for number in order:
            yield X[number : number + 1] + random.random(), X[:1, :1]

    return first_and_second(rows, nums)


def ends_early() -> str:
    run = Run(lambda: ((X, X) for _ in range(3)))
    try:
        begin_at(run.adapter, run.begin, 4)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


class _Counting(np.ndarray[Any, Any]):
    """An array that counts the rows that were read of it."""

    rows_read: ClassVar[list[int]] = []

    def __getitem__(self, places: Any) -> Any:
        rows = np.asarray(self)[places]
        _Counting.rows_read.append(len(rows))
        return rows


def rows_read_of_arrays() -> list[int]:
    """The number of rows in each read of arrays from their last batch on; TensorFlow reads them in its own program."""
    _Counting.rows_read.clear()
    run = Run(lambda: X, batch_size=4, shuffle=True)
    run.adapter._inputs = (X.view(_Counting),)
    jumped, _ = begin_at(run.adapter, run.begin, 2)
    list(jumped)
    return _Counting.rows_read


def parts(shuffle: Any, nums: list[int]) -> list[Any]:
    """The same of the parts that one of several processes reads."""

    def begin(adapter: Any) -> Callable[[], Iterator[Any]]:
        if keras.backend.backend() == "torch":
            from abreast.backend.torch.parts import parts_of

            return lambda: parts_of(adapter, _own_rows) or iter(())
        return lambda: array_parts(array_order(adapter), array_reader(adapter), _own_rows)

    return first_and_second(lambda: X, nums, begin_of=begin, batch_size=4, shuffle=shuffle)


def _own_rows(rows: int) -> range:
    return range(rows // 2, rows)
