"""Bodies of the tests of the place in a source; they run in a worker. A first run reads a source, and a second goes on in it."""

from __future__ import annotations

import copy
import importlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np

import abreast
from abreast.backend import current_backend
from abreast.feed import HostBatch, Part, Source, array_parts
from abreast.feed.jump import begin_at, source_fingerprint
from abreast.feed.source_state import SourceState
from abreast.keras_private.data_adapters import array_order, array_reader, note_orders
from abreast.records import pack
from tests.feed.own_bodies import _count_painted

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

    def begin_epoch(self) -> Iterator[Any]:
        self.adapter.on_epoch_begin()
        return self.begin()


def values(batch: Any) -> Any:
    if isinstance(batch, Part):
        return [values(batch.data), batch.rows, batch.held, batch.digest]
    return keras.tree.map_structure(lambda leaf: None if leaf is None else np.asarray(leaf).tolist(), batch)


def first_and_second(make: Made, nums: list[int], epoch_of: Any = None, **options: Any) -> list[Any]:
    """For each number: whether the second run has the rest of the batches and the draws after it; the numbers; the note.

    `epoch_of` is called with an adapter that has to begin with another epoch than the first.
    """
    found = []
    for num_batches in nums:
        first = Run(make, **options)
        if epoch_of is not None:
            epoch_of(first.adapter)
        when_made = generators()
        batches = first.begin()
        draw()
        before_first = generators()
        for _ in range(num_batches):
            next(batches)
        now = generators()
        expected = [values(batch) for batch in batches], draw()
        second = Run(make, **options)
        if epoch_of is not None:
            epoch_of(second.adapter)
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


def images(folder: str, nums: list[int], in_parts: bool = False) -> list[Any]:
    """The same of random crops of images, in their third epoch; and the rows that were decoded after 2 of 3 batches."""

    def begin(adapter: Any) -> Callable[[], Iterator[Any]]:
        return lambda: adapter._parts(_own_rows)

    def make() -> Any:
        return abreast.ImageRecords(folder, 4, size=8, seed=5)

    pack((np.random.default_rng(0).integers(0, 256, (11, 12, 12, 3), np.uint8), np.arange(11) % 3), folder)
    found = first_and_second(
        make, nums, lambda each: each.restore(each.state(2, 0)), begin_of=begin if in_parts else None
    )
    records = make()
    decoded = _count_painted(records)
    jumped, _ = begin_at(records, begin(records) if in_parts else current_backend().source(records), 2)
    list(jumped)
    return [found, decoded]


def images_after_a_jump(folder: str) -> list[int]:
    """Epochs of records after a jump to the end of the first one, and to its last batch, which Keras then takes."""
    pack(np.zeros((11, 12, 12, 3), np.uint8), folder)
    found = []
    for num_batches in (3, 2):
        records = abreast.ImageRecords(folder, 4, size=8, targets=None)
        batches, _ = begin_at(records, current_backend().source(records), num_batches)
        if num_batches == 2:
            next(batches)
            current_backend().source(records)()
            records.on_epoch_end()
        found.append(len(list(records)) + 10 * records.epoch)
    return found


def fingerprints(kinds: list[str]) -> dict[str, list[list[str]]]:
    """Of each kind of source, the names of what differs between sources that are alike, and between two that are not."""
    found = {}
    for kind in kinds:
        one, same, other = (Run(*_source(kind, change), **_OPTIONS.get(kind, {})).adapter for change in (0, 0, 1))
        alike, changed = source_fingerprint(same), source_fingerprint(other)
        own = source_fingerprint(one)
        assert json.loads(json.dumps(own)) == own
        found[kind] = [[name for name in own if own[name] != each.get(name)] for each in (alike, changed)]
    return found


_OPTIONS: dict[str, dict[str, Any]] = {"arrays": {"batch_size": 4}}


def _source(kind: str, change: int) -> tuple[Made]:
    x = X.copy()
    x[0, 0] += change
    if kind == "arrays":
        return (lambda: x,)
    if kind == "generator":
        return (lambda: ((x[:, change:],) for _ in range(4)),)
    if kind == "PyDataset":
        return (lambda: _Rows(x, 4 + change),)
    if kind == "tf.data":
        import tensorflow as tf

        return (lambda: tf.data.Dataset.from_tensor_slices(x).shuffle(9, seed=change).batch(4),)
    if kind == "torch":
        import torch

        data = torch.utils.data.TensorDataset(torch.from_numpy(x))
        return (lambda: torch.utils.data.DataLoader(data, batch_size=4, shuffle=bool(change)),)
    import grain

    return (lambda: grain.MapDataset.source(list(x)).to_iter_dataset().batch(4 + change),)


class _Rows(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches of rows, whose reads are noted."""

    def __init__(self, x: Any, batch_size: int = 4, **settings: Any) -> None:
        super().__init__(**settings)
        self.x, self.batch_size = x, batch_size

    def __len__(self) -> int:
        return -(-len(self.x) // self.batch_size)

    def __getitem__(self, index: int) -> Any:
        return (self.x[index * self.batch_size :][: self.batch_size],)


class _Drawing(_Rows):
    """A data set with state: `how` says what its reads change."""

    def __init__(self, how: str, **settings: Any) -> None:
        super().__init__(X, **settings)
        self.how, self.order, self.count = how, list(range(11)), 0
        self.own = np.random.default_rng(3)

    def on_epoch_end(self) -> None:
        self.own.shuffle(self.order)
        self.count += 1

    def __getitem__(self, index: int) -> Any:
        READS.append(index)
        self.count += self.how == "counts"
        return (self.x[self.order[index * 4 : index * 4 + 4]] + self.count + _drawn(self.how, self.own),)


READS: list[int] = []  # the batches or rows that were read
OF_MODULE = np.random.default_rng(4)


def _drawn(how: str, own: Any) -> float:
    if how == "global":
        return float(np.random.random())
    if how == "torch":
        return float(sys.modules["torch"].rand(()))
    return float(own.random() if how == "own" else OF_MODULE.random() if how == "module" else 0)


def datasets(how: str, nums: list[int], ahead: int = 0, **settings: Any) -> list[Any]:
    """The same of a `PyDataset` in its third epoch, with all that a checkpoint keeps; what is read in the second run; the note.

    `ahead`: batches that the first run had read ahead when it ended.
    """
    return [_two_runs(lambda: _Drawing(how, **settings), each, ahead, shuffle=True) for each in nums]


def loaders(how: str, nums: list[int], ahead: int = 0, workers: int = 0) -> list[Any]:
    """The same of a `DataLoader`."""
    import torch

    class Data(torch.utils.data.Dataset[Any]):
        def __init__(self) -> None:
            self.own = np.random.default_rng(3)

        def __len__(self) -> int:
            return 11

        def __getitem__(self, index: int) -> Any:
            READS.append(index)
            return (torch.from_numpy(X[index]) + _drawn(how, self.own),)

    def make() -> Any:
        data: Any = torch.utils.data.TensorDataset(torch.from_numpy(X)) if how == "tensors" else Data()
        return torch.utils.data.DataLoader(data, 4, shuffle=True, num_workers=workers)

    return [_two_runs(make, each, ahead) for each in nums]


def _two_runs(make: Made, num_batches: int, ahead: int, num_epochs: int = 2, **options: Any) -> list[Any]:
    first = _Kept(make, **options)
    for _ in range(num_epochs):
        list(first.run.begin_epoch())
        first.run.adapter.on_epoch_end()
    saved, expected = first.until(num_batches, ahead)
    OF_MODULE.bit_generator.state = np.random.default_rng(4).bit_generator.state
    second = _Kept(make, **options)
    second.run.adapter.on_epoch_begin()
    READS.clear()
    batches, note = second.resume(saved)
    num_reads = len(READS)
    return [second.to_the_end(list(batches)) == expected, num_reads, note]


@dataclass
class _Saved:
    """What a checkpoint keeps of a source: the generators, and its own state, at three moments."""

    generators: list[Callable[[], None]]
    states: list[Any]
    num_batches: int
    checksum: int
    is_ahead: bool


class _Kept:
    """A run whose source and generators are kept, as a checkpoint does."""

    def __init__(self, make: Made, **options: Any) -> None:
        note_orders()
        self.run = Run(make, **options)
        self.state = SourceState(self.run.adapter)

    def until(self, num_batches: int, ahead: int) -> tuple[_Saved, Any]:
        kept: list[tuple[Callable[[], None], Any]] = []

        def keep() -> None:
            kept.append((generators(), copy.deepcopy(self.state.read())))

        self.run.adapter.on_epoch_begin()
        keep()
        batches = self.run.begin()
        draw()
        keep()
        last = [next(batches) for _ in range(num_batches)][-1]
        checksum = HostBatch.of(last, text=True).compared
        more = [next(batches) for _ in range(ahead)]
        keep()
        put_back, states = zip(*kept, strict=True)
        saved = _Saved(list(put_back), list(states), num_batches, checksum, ahead > 0)
        return saved, self.to_the_end([*more, *batches])

    def to_the_end(self, rest: list[Any]) -> Any:
        drawn = draw()
        self.run.adapter.on_epoch_end()
        again = [values(batch) for batch in self.run.begin_epoch()]
        self.run.adapter.on_epoch_end()
        return [[values(batch) for batch in rest], drawn, again]

    def resume(self, saved: _Saved) -> Any:
        made, first, now = saved.generators

        def begin() -> Any:
            made()
            self.state.write(saved.states[0])
            return self.run.begin()

        def before_first() -> None:
            first()
            self.state.write(saved.states[1])

        def agrees() -> bool:
            return self.state.is_as(saved.states[2]) and (not saved.is_ahead or _is_now(now))

        found = begin_at(self.run.adapter, begin, saved.num_batches, before_first, agrees, saved.checksum)
        if not saved.is_ahead:
            now()
        self.state.write_rest(saved.states[2])
        return found


def _is_now(put_back: Callable[[], None]) -> bool:
    """Whether the generators are as this function would set them."""
    present = generators()
    own = draw()
    put_back()
    other = draw()
    present()
    return own == other


def tf_data(how: str, nums: list[int]) -> list[Any]:
    """The same of a `tf.data` pipeline."""
    import tensorflow as tf

    def make() -> Any:
        rows = tf.data.Dataset.from_tensor_slices(X)
        if how == "unseeded":
            context._seed = None
            return rows.shuffle(5).batch(4)
        if how == "drawing":
            return rows.map(lambda row: row + tf.random.uniform(())).batch(4)
        if how == "variable":
            generator = tf.random.Generator.from_seed(1)
            return rows.map(lambda row: row + generator.uniform(())).batch(4)
        if how == "cached":
            return rows.shuffle(5).cache().batch(4)
        shuffled = rows.shuffle(5, seed=None if how == "global seed" else 3)
        return shuffled.repeat().batch(4).take(6) if how == "repeated" else shuffled.batch(4)

    context: Any = importlib.import_module("tensorflow.python.eager.context").context()
    return [_two_runs(make, each, 0, num_epochs=0 if how == "repeated" else 2) for each in nums]


def grain_data(how: str, nums: list[int]) -> list[Any]:
    """The same of Grain, whose random transformations count the elements."""
    import grain

    def make() -> Any:
        rows = grain.MapDataset.source(list(X)).seed(3).shuffle().random_map(_shifted)
        if how == "numbered":
            return rows.batch(4).to_iter_dataset()
        return rows.to_iter_dataset().filter(lambda row: row[0] > 0).batch(4)

    def _shifted(row: Any, generator: Any) -> Any:
        READS.append(0)
        return row + generator.random(dtype="float32")

    return [_two_runs(make, each, 0) for each in nums]


def unseeded_arrays() -> str | None:
    """The note of arrays that TensorFlow shuffles without a seed."""
    context: Any = importlib.import_module("tensorflow.python.eager.context").context()
    run = Run(lambda: X, batch_size=4, shuffle=True)
    context._seed = None
    return begin_at(run.adapter, run.begin, 1)[1]
