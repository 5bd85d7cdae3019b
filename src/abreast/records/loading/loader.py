"""A packed data set as batches for training: shuffled, cropped and decoded ahead of who takes them.

The sequence of batches is a function of the settings: no thread, process or restart changes it. No framework here;
`image_records.py` shows it to Keras, `decoding.py` knows who decodes. Imports `assembly`, `decoding`, `gpu_choice`, `reader`,
`sampling`, `sizes`, `views`, `hardware` and `errors`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from abreast.errors import DataError
from abreast.hardware import num_cores
from abreast.records.decoding.choose import Decoding
from abreast.records.decoding.painters import Painters
from abreast.records.extras import extra
from abreast.records.loading.assembly import Assembly, Look, Started, Targets
from abreast.records.loading.draws import checked_seed
from abreast.records.loading.rate import images_per_second
from abreast.records.loading.sampling import Place, Sampling
from abreast.records.loading.views import CenterCrop, RandomCrop
from abreast.records.reading.reader import Numbers, Records
from abreast.records.reading.sizes import Sizes

_TASKS_PER_THREAD = 2  # of a batch, and of what waits
_MAX_SIDE = 65_500


class Loader:
    """Batches of `uint8` images, rows by `size` by channels, with columns as targets.

    Iterating gives the batches of an epoch; each iteration that came to its end is followed by the next epoch. `loader[i]`
    is batch `i` of the present one. Used as a `with`, or closed, it gives its files back.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        batch_size: int,
        *,
        size: int | tuple[int, int] = 224,
        augment: bool | RandomCrop | CenterCrop = True,
        targets: Targets = "label",
        weights: str | None = None,
        shuffle: bool | None = None,
        seed: int = 0,
        drop_remainder: bool = False,
        antialias: bool | None = None,
        smaller: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
        num_threads: int | None = None,
        num_workers: int = 0,
        decoder: str = "cpu",
        shard: int = 0,
        num_shards: int = 1,
    ) -> None:
        view = _view(augment)
        trains = isinstance(view, RandomCrop)
        look = Look(_size(size), view, not trains if antialias is None else bool(antialias))
        if num_threads is not None and not (isinstance(num_threads, int) and num_threads >= 1):
            raise DataError(f"num_threads={num_threads!r}", "give a number above 0, or None for one per core")
        if not (isinstance(num_workers, int) and num_workers >= 0):
            raise DataError(f"num_workers={num_workers!r}", "give a number of processes, or 0 for threads of this one")
        self.records = Records(folder)
        smaller = [fspath(smaller)] if isinstance(smaller, str | PathLike) else [fspath(each) for each in smaller]
        self._sampling = Sampling(
            *(len(self.records), batch_size, checked_seed(seed), trains if shuffle is None else bool(shuffle)),
            *(bool(drop_remainder), shard, num_shards),
        )
        self.num_threads = num_threads or num_cores()
        rows = len(self._sampling.positions(0))
        self._ahead = max(2, -(-_TASKS_PER_THREAD * self.num_threads // rows))
        keep_batches = self._ahead + 4
        sizes = Sizes(self.records, smaller)
        self._assembly = Assembly(sizes, look, targets, weights, max_rows=rows, keep_batches=keep_batches)
        self._decoding = Decoding(decoder, self._assembly.batches, self.num_threads, num_workers)
        self._order: tuple[int, Numbers] | None = None
        self._begin = self._next = Place(0, 0)
        self._settings: dict[str, Any] = {
            "batch_size": batch_size,
            "size": size,
            "augment": augment,
            "targets": targets,
            "weights": weights,
            "shuffle": shuffle,
            "seed": seed,
            "drop_remainder": drop_remainder,
            "antialias": antialias,
            "smaller": smaller,
            "num_threads": num_threads,
            "num_workers": num_workers,
            "shard": shard,
            "num_shards": num_shards,
        }
        if extra("cv2").getNumThreads() != 1:
            # Each of our threads has an image of its own. In a forked child OpenCV's would be missing, and waited for.
            extra("cv2").setNumThreads(1)
        super().__init__()  # Keras's, below `ImageRecords`

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._sampling.num_batches

    def __iter__(self) -> Iterator[Any]:
        """The rest of the epoch. At its end, or when it is closed, no thread is left; processes wait for the next one."""
        return self._rest_of_epoch()

    def _rest_of_epoch(self, may_only_look: bool = False) -> Iterator[Any]:
        """`may_only_look`: who takes a first batch may leave it at that, and an epoch may have but one."""
        begin = self._begin
        order = self._order_of(begin.epoch)
        started: deque[Started] = deque()
        asked = begin.batch
        process = os.getpid()
        self._decoding.decided(self._images_per_second)
        painters = self._decoding.painters()
        try:
            painters.aside(self._read_ahead, begin.epoch, order, range(asked, asked + self._ahead))
            for batch in range(begin.batch, len(self)):
                if os.getpid() != process:  # the threads stayed behind, and would be waited for
                    raise DataError("an iteration goes on in a forked process", "begin another one there: iter(loader)")
                while asked < min(batch + self._ahead + 1, len(self)):
                    started.append(self._start(begin.epoch, asked, order, painters))
                    asked += 1
                started[0].wait()
                self._next = self._checked(Place(begin.epoch, batch + 1))
                if batch + 1 == len(self):
                    painters.finish()  # Keras asks for no more, and so would not come to the end of this
                    if batch > begin.batch or (len(self) == 1 and not may_only_look):
                        self._ended(begin)
                yield started.popleft().data  # held by nobody here: its memory is free when the caller lets it go
            self._ended(begin)
        finally:
            painters.leave()

    def _ended(self, begin: Place) -> None:
        """An iteration that began there has given all; another one, or `restore`, may have gone on from it already."""
        if self._begin == begin:
            self._begin = Place(begin.epoch + 1, 0)

    def _end_if_all_given(self) -> None:
        """End an epoch of which all was given to who only might have looked."""
        if self._next.epoch > self._begin.epoch:
            self._ended(self._begin)

    def _start(self, epoch: int, batch: int, order: Numbers, painters: Painters) -> Started:
        """Let painters make a batch, and have the disk's next one ready by then."""
        painters.aside(self._read_ahead, epoch, order, range(batch + self._ahead, batch + self._ahead + 1))
        positions = self._sampling.positions(batch)
        numbers = order[positions.start : positions.stop]
        num_tasks = _TASKS_PER_THREAD * self.num_threads
        return self._assembly.start(numbers, self._sampling.seed, epoch, positions.start, painters, num_tasks)

    def __getitem__(self, batch: int) -> Any:
        """Batch `batch` of the epoch that an iteration would begin with, made at once."""
        if not -len(self) <= batch < len(self):
            raise IndexError(f"batch {batch} of {len(self)}")
        epoch, positions = self._begin.epoch, self._sampling.positions(batch % len(self))
        numbers = self._order_of(epoch)[positions.start : positions.stop]
        place = numbers, self._sampling.seed, epoch, positions.start
        if self._decoding.decided(self._images_per_second) == "cpu":
            return self._assembly.make(*place)
        painters = self._decoding.painters()
        try:
            return self._assembly.start(*place, painters, num_tasks=1).wait()
        finally:
            painters.leave()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        settings = {**self._settings, "decoder": self._decoding.decoder}
        return _again, (type(self), fspath(self.records.folder), settings, self._begin)

    def __repr__(self) -> str:
        sampling = self._sampling
        return f"<{type(self).__name__} {self.records.folder}: {sampling.num_samples} samples, {len(self)} batches>"

    @property
    def batch_size(self) -> int:
        """Rows of a global batch."""
        return self._sampling.batch_size

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What the numbers of the column `label` mean, where the source had names."""
        return self.records.class_names

    @property
    def epoch(self) -> int:
        """Of the next batch, from 0."""
        return self._next.epoch

    def state(self, epoch: int | None = None, batch: int | None = None) -> dict[str, Any]:
        """What `restore` needs to go on with batch `batch` of `epoch`, by default behind the last that was given.

        Who reads ahead, as `fit` may do, says how far it really came. The dictionary can be written as JSON.
        """
        if (epoch is None) != (batch is None):
            raise DataError("epoch and batch go together", "give both, or none")
        place = self._next if epoch is None or batch is None else self._checked(Place(epoch, batch))
        return {**self._sequence(), "decoder": self._decoding.decoder, "epoch": place.epoch, "batch": place.batch}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on at the place of a `state`. Raises `DataError` for that of other batches."""
        if not isinstance(state, Mapping):
            raise DataError(f"this is no state: {state!r:.100}", "give what state() gave")
        wanted = self._sequence()
        missing = [name for name in (*wanted, "epoch", "batch") if name not in state]
        if missing:
            raise DataError(f"this is no state: {', '.join(missing)} is missing", "give what state() gave")
        other = {name: state[name] for name in wanted if state[name] != wanted[name]}
        if other:
            what = ", ".join(f"{name} was {value} and is {wanted[name]}" for name, value in other.items())
            raise DataError(f"the state belongs to other batches: {what}", "use the settings that it was made with")
        place = self._checked(Place(state["epoch"], state["batch"]))
        self._decoding.restore(state.get("decoder"))
        self._begin = self._next = place

    def close(self) -> None:
        """Give the files back. Batches stay what they are."""
        self._assembly.batches.sizes.close()
        self._decoding.close()

    def _checked(self, place: Place) -> Place:
        if not (type(place.epoch) is type(place.batch) is int and place.epoch >= 0 and 0 <= place.batch <= len(self)):
            raise DataError(f"epoch {place.epoch!r}, batch {place.batch!r} of {len(self)}", "both count from 0")
        return Place(place.epoch + 1, 0) if place.batch == len(self) else place

    def _sequence(self) -> dict[str, Any]:
        """All that the batches are a function of, but their place."""
        sampling, look = self._sampling, self._assembly.look
        data_set, *smaller = self._assembly.batches.sizes.data_sets
        return {
            "data_set": data_set,
            "num_samples": sampling.num_samples,
            "batch_size": int(sampling.batch_size),
            "seed": sampling.seed,
            "shuffle": sampling.shuffle,
            "drop_remainder": sampling.drop_remainder,
            "size": list(look.size),
            "augment": repr(look.view),
            "antialias": look.antialias,
            "smaller": smaller,
        }

    def _images_per_second(self, painters: Painters) -> float:
        """What they do of the batches that come next, again and again."""
        begin, order = self._begin, self._order_of(self._begin.epoch)

        def start(number: int) -> Started:
            batch = (begin.batch + number % (self._ahead + 1)) % len(self)
            return self._start(begin.epoch, batch, order, painters)

        try:
            return images_per_second(start, self._ahead)
        finally:
            painters.leave()

    def _order_of(self, epoch: int) -> Numbers:
        known = self._order
        if known is None or known[0] != epoch:
            known = self._order = (epoch, self._sampling.order(epoch))
        return known[1]

    def _read_ahead(self, epoch: int, order: Numbers, batches: range) -> None:
        for batch in batches:
            if batch < len(self):
                positions = self._sampling.positions(batch)
                numbers = order[positions.start : positions.stop]
                self._assembly.will_need(numbers, self._sampling.seed, epoch, positions.start)


def _again(kind: type[Loader], folder: str, settings: dict[str, Any], begin: Place) -> Loader:
    loader = kind(folder, **settings)
    loader._begin = loader._next = begin
    return loader


def _view(augment: Any) -> RandomCrop | CenterCrop:
    if isinstance(augment, bool):
        return RandomCrop() if augment else CenterCrop()
    if isinstance(augment, RandomCrop | CenterCrop):
        return augment
    hint = "True for random crops and flips, False for the centre, or abreast.records.RandomCrop(...), CenterCrop(...)"
    raise DataError(f"augment={augment!r:.100}", hint)


def _size(size: Any) -> tuple[int, int]:
    sides = (size, size) if isinstance(size, int) else size
    if (
        isinstance(sides, tuple | list)
        and [*map(type, sides)] == [int, int]
        and 0 < min(sides) <= max(sides) <= _MAX_SIDE
    ):
        return sides[0], sides[1]
    raise DataError(f"size={size!r:.100}", "give pixels, as 224, or height and width, as (192, 256)")
