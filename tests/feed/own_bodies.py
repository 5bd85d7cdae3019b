"""Bodies of the tests of sources under several processes; they run in a worker, where the processes are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from abreast.feed import BetweenSteps, Feed, HostBatch, Source, array_parts
from abreast.keras_private.data_adapters import ArrayDataAdapter, array_order, array_reader
from abreast.staging import Processes, Stage, Staging


class _Messages:
    """What the processes of a job have said, by the number of the message and the rank."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size, timeout=20)
        self._said = [b""] * size
        self.number = 0

    def exchange(self, rank: int, doing: str, own: bytes) -> list[bytes]:
        self._said[rank] = doing.encode() + b"\n" + own
        self._barrier.wait()
        said = [each.split(b"\n", 1) for each in self._said]
        self._barrier.wait()
        self.number += rank == 0
        assert len({doing for doing, _ in said}) == 1, said
        return [message for _, message in said]


class _Process:
    """See `Processes`."""

    def __init__(self, rank: int, messages: _Messages) -> None:
        self.rank = rank
        self.size = messages.size
        self.messages = messages

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        return self.messages.exchange(self.rank, doing, own)


def _together(size: int, body: Callable[[int, Processes], Any]) -> list[Any]:
    """The results, or the errors, of a body in each process of a job."""
    messages = _Messages(size)
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            found[rank] = body(rank, _Process(rank, messages))
        except Exception as error:
            found[rank] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def _feed(x: Any, processes: Processes, **options: Any) -> Feed:
    def begin(adapter: Any) -> Callable[[], Iterator[Any]]:
        return lambda: iter(adapter.get_numpy_iterator())

    source = Source(x, {"y": None, "sample_weight": None, "batch_size": None, **options}, begin)
    return Feed(source, Stage(lambda host: host.data, processes=processes), Staging(), BetweenSteps())


def steps_of(sources: list[Any], **options: Any) -> list[Any]:
    """Of processes with these sources: the number of batches that Keras is told, and of each step its counts and own rows."""

    def body(rank: int, processes: Processes) -> Any:
        x = sources[rank]() if callable(sources[rank]) else sources[rank]
        feed = _feed(x, processes, **({"batch_size": 4} if isinstance(x, np.ndarray) else {}), **options)
        try:
            told, steps = feed.num_batches, []
            iterator = iter(feed)
            for _ in range(100):
                try:
                    taken = iterator.take()
                except StopIteration:
                    break
                counts = list(taken.counts or ())
                steps.append([counts, keras.tree.flatten(taken.host.data)[0][: counts[rank], 0].tolist()])
            return told, steps
        finally:
            feed.close()

    return _together(len(sources), body)


def _rows(first: int, count: int) -> Any:
    return np.arange(first, first + count, dtype="float32")[:, None]


def ragged_arrays() -> list[Any]:
    return steps_of([_rows(0, 10), _rows(100, 5)])


def messages_of_arrays() -> list[Any]:
    """Of processes with 5 and 3 batches, the last ones shorter: the counts of one step after another, and the messages."""
    sources, told = [_rows(0, 19), _rows(100, 10)], list[int]()

    def body(rank: int, process: Any) -> Any:
        feed = _feed(sources[rank], process, batch_size=4)
        iterator = iter(feed)
        try:
            return [iterator.take().counts for _ in range(feed.num_batches)]
        finally:
            feed.close()
            told.append(process.messages.number)

    return [_together(2, body), max(told)]


def ragged_generators() -> list[Any]:
    """One with two batches of other lengths, one with four."""
    short, long = [_rows(0, 3), _rows(3, 1)], [_rows(100 + i, 2) for i in range(4)]
    return steps_of([lambda: ((rows,) for rows in short), lambda: ((rows,) for rows in long)])


def same_rows() -> list[Any]:
    return steps_of([_rows(0, 10), _rows(5, 5), _rows(0, 10)])


def same_rows_in_other_orders() -> list[Any]:
    """The processes draw from one generator, and so their orders differ."""
    return steps_of([_rows(0, 64), _rows(0, 64)], shuffle=True)


def equal_rows() -> list[Any]:
    """Rows of zeros, which no two processes can tell apart."""
    return steps_of([np.zeros((3, 1)), np.zeros((3, 1))])


def other_arrays() -> list[Any]:
    return steps_of([_rows(0, 3), _rows(5, 3).astype("int32")])


def empty_source() -> list[Any]:
    return steps_of([_rows(0, 3), _rows(5, 0)])


def empty_data_set() -> list[Any]:
    class Nothing(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 0

        def __getitem__(self, index: int) -> Any:
            raise IndexError

    return steps_of([_rows(0, 3), Nothing()])


def failing_source() -> list[Any]:
    def failing() -> Iterator[Any]:
        yield (_rows(0, 2),)
        yield (_rows(2, 2),)
        raise KeyError("a file is gone")

    return steps_of([failing, lambda: ((_rows(100 + i, 2),) for i in range(5))])


def array_batches(shuffle: Any) -> list[Any]:
    """The rows of three processes, put together, and those of Keras's own iterator; the rows that were read; digests."""
    x = np.arange(70, dtype="float32").reshape(35, 2)
    adapter = ArrayDataAdapter(x, x[:, 0], batch_size=16, shuffle=shuffle)
    np.random.seed(3)
    whole = [each[0].tolist() for each in adapter.get_numpy_iterator()]
    parts, digests, held = [], [], []
    for rank in range(3):
        np.random.seed(3)

        def own_rows(rows: int, rank: int = rank) -> range:
            cut = np.array_split(np.arange(rows), 3)[rank]
            return range(cut[0], cut[-1] + 1)

        batches = [HostBatch.of(part) for part in array_parts(array_order(adapter), array_reader(adapter), own_rows)]
        parts.append([np.asarray(batch.data[0]) for batch in batches])
        digests.append([batch.digest for batch in batches])
        held.append([(batch.rows, len(batch.data[0])) for batch in batches])
    joined = [np.concatenate(each).tolist() for each in zip(*parts, strict=True)]
    return [joined == whole, len(set(map(str, digests))) == 1, held]


def other_order_or_rows() -> list[bool]:
    """Whether the digests notice another order, and other rows."""
    x = np.arange(70, dtype="float32").reshape(35, 2)

    def digests(seed: int, data: Any) -> list[int | None]:
        np.random.seed(seed)
        adapter = ArrayDataAdapter(data, batch_size=16, shuffle=True)
        adapter._epoch = seed  # from which Keras 3.16 draws the order
        parts = array_parts(array_order(adapter), array_reader(adapter), lambda rows: range(1))
        return [HostBatch.of(part).digest for part in parts]

    return [digests(3, x) == digests(3, x), digests(3, x) == digests(4, x), digests(3, x) == digests(3, x + 1)]


def image_batches(folder: str) -> list[Any]:
    """Whether two processes decode the rows of whole batches, each its own only; the rows that each decoded."""
    import abreast
    from abreast.records import pack

    images = np.random.default_rng(0).integers(0, 256, (11, 40, 40, 3), np.uint8)
    pack((images, np.arange(11)), folder)
    with abreast.ImageRecords(folder, 4, size=32, seed=1) as records:
        whole = [(x.copy(), y) for x, y in records]
    found, digests, decoded = [], [], list[int]()
    for rank in range(2):
        with abreast.ImageRecords(folder, 4, size=32, seed=1) as records:
            painted = _count_painted(records)
            parts = [HostBatch.of(part) for part in records._parts(_halves(rank))]
            found.append([(part.data[0].copy(), part.data[1]) for part in parts])
            digests.append([part.digest for part in parts])
            decoded.append(sum(painted))
            assert records.epoch == 1
    equal = [
        all(np.array_equal(np.concatenate([one[i], other[i]]), both[i]) for i in range(2))
        for one, other, both in zip(*found, whole, strict=True)
    ]
    return [all(equal), digests[0] == digests[1], len(set(digests[0])), decoded]


def _halves(rank: int) -> Callable[[int], range]:
    return lambda rows: range(rows * rank // 2, rows * (rank + 1) // 2)


def _count_painted(records: Any) -> list[int]:
    """The numbers of rows that are decoded from now on, in a list that grows."""
    painter, painted = records._assembly.batches.rows, list[int]()
    plain = painter.paint

    def paint(numbers: Any, *arguments: Any) -> None:
        painted.append(len(numbers))
        plain(numbers, *arguments)

    painter.paint = paint
    return painted


def unknown_kind() -> str:
    import abreast

    try:
        abreast.DataParallel(2, source="mine")  # type: ignore[arg-type]
    except abreast.AbreastError as error:
        return str(error)
    return ""


def of_one_process() -> list[float]:
    """The losses of one process per host, and of the default."""
    import abreast

    found = []
    for source in ("per-host", "global"):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        abreast.parallelize(model, 2, source=source)
        found.append(
            float(model.fit(_rows(0, 9), _rows(0, 9), batch_size=4, shuffle=False, verbose=0).history["loss"][0])
        )
    return found
