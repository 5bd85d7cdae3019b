"""`Loader`: a packed data set as batches for training, which are shuffled, cropped and decoded ahead of their use.

The sequence of batches is a function of the settings: threads, processes and restarts do not change it. No framework is
used here; `image_records.py` is the loader for Keras.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Generic, Self, cast
from weakref import WeakSet

from abreast.cpu import num_cores
from abreast.errors import DataError
from abreast.records.decoding.choose import Decoding
from abreast.records.decoding.gpu_choice import Decoder
from abreast.records.decoding.painters import Painters
from abreast.records.extras import extra
from abreast.records.loading.assembly import Assembly, Look, Started
from abreast.records.loading.draws import checked_seed
from abreast.records.loading.fit_epochs import FitEpochs
from abreast.records.loading.rate import images_per_second
from abreast.records.loading.sampling import Place, Sampling
from abreast.records.loading.targets import ClassNames, Targets
from abreast.records.loading.typed import Batch
from abreast.records.loading.views import CenterCrop, RandomCrop
from abreast.records.reading.reader import Numbers, Records
from abreast.records.reading.sizes import Sizes
from abreast.shares import OwnRows

_TASKS_PER_THREAD = 2  # tasks per thread in a batch, and in the batches begun ahead
_MAX_SIDE = 65_500


class Loader(Generic[Batch]):
    """Batches of `uint8` images, rows by `size` by channels, with columns as targets.

    An iteration gives the batches of an epoch. After a complete iteration, the next one gives the next epoch. `loader[i]`
    is batch `i` of the current epoch. `close`, or the end of a `with` block, closes its files.
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
        decoder: Decoder = "cpu",
        shard: int = 0,
        num_shards: int = 1,
        class_names: ClassNames = None,
    ) -> None:
        view = _view(augment)
        trains = isinstance(view, RandomCrop)
        look = Look(checked_size(size), view, not trains if antialias is None else bool(antialias))
        if num_threads is not None and not (isinstance(num_threads, int) and num_threads >= 1):
            raise DataError(
                f"num_threads={num_threads!r} is not allowed", "give a number above 0, or None for one thread per core"
            )
        if not (isinstance(num_workers, int) and num_workers >= 0):
            hint = "give a number of processes, or 0 for threads of this process"
            raise DataError(f"num_workers={num_workers!r} is not allowed", hint)
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
        self._assembly = Assembly(sizes, look, targets, weights, rows, keep_batches, class_names)
        named = class_names is not None or self._assembly.class_names != self.records.class_names
        self._decoding = Decoding(decoder, self._assembly.batches, self.num_threads, num_workers)
        self._order: tuple[int, Numbers] | None = None
        self._begin = self._next = Place(0, 0)
        self._restored = False  # whether `restore` set the place, and no `fit` has begun there
        self._fit_epochs: FitEpochs | None = None  # epochs of the present or last `fit`
        self._fit_begins: FitEpochs | None = None  # epochs of a `fit` before its first batch is read
        self._painting: WeakSet[Painters] = WeakSet()  # painters of the running iterations
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
            "class_names": self._assembly.class_names if named else None,  # as announced; a copy says nothing
        }
        if extra("cv2").getNumThreads() != 1:
            # Each of our threads decodes its own image. A forked child would wait for OpenCV's threads, which it lacks.
            extra("cv2").setNumThreads(1)
        super().__init__()  # in `ImageRecords`, this is Keras's

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return self._sampling.num_batches

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the epoch. Its threads end with the iteration, or when it is closed; processes wait for the next one."""
        return self._rest_of_epoch()

    def _rest_of_epoch(self, may_only_look: bool = False, own_rows: OwnRows = range) -> Iterator[Any]:
        """The batches from the place of `_begin` on, or `own_rows` of each.

        `may_only_look`: Keras may take only the first batch, to build the model. Do not count that as an epoch, even if
        the epoch has only one batch.
        """
        begin = self._begin
        order = self._order_of(begin.epoch)
        started: deque[Started] = deque()
        asked = begin.batch
        process = os.getpid()
        self._decoding.decided(self._images_per_second)
        painters = self._decoding.painters()
        self._painting.add(painters)
        try:
            painters.aside(self._read_ahead, begin.epoch, order, range(asked, asked + self._ahead), own_rows)
            for batch in range(begin.batch, len(self)):
                if os.getpid() != process:  # a forked process has no threads, and would wait for ever
                    hint = "begin another iteration there: iter(loader)"
                    raise DataError("an iteration cannot continue in a forked process", hint)
                while asked < min(batch + self._ahead + 1, len(self)):
                    started.append(self._start(begin.epoch, asked, order, painters, own_rows))
                    asked += 1
                started[0].wait()
                self._next = self._checked(Place(begin.epoch, batch + 1))
                if batch + 1 == len(self):
                    painters.finish()  # Keras does not ask again after the last batch, so the code after the loop may never run
                    if batch > begin.batch or not may_only_look:
                        self._ended(begin)
                yield started.popleft().data  # no reference stays here, so the memory is free as soon as the caller drops it
            self._ended(begin)
        finally:
            painters.leave()

    def _ended(self, begin: Place) -> None:
        """Go to the next epoch after a complete iteration from `begin`, unless another one or `restore` moved already."""
        if self._begin == begin:
            self._begin = Place(begin.epoch + 1, 0)
            self._restored = False

    def _end_if_all_given(self) -> None:
        """End an epoch whose batches were all given while `may_only_look`."""
        if self._next.epoch > self._begin.epoch:
            self._ended(self._begin)

    def _start(self, epoch: int, batch: int, order: Numbers, painters: Painters, own_rows: OwnRows = range) -> Started:
        """Begin a batch with painters, and begin to read a later batch from the disk."""
        later = range(batch + self._ahead, batch + self._ahead + 1)
        painters.aside(self._read_ahead, epoch, order, later, own_rows)
        positions = self._own_positions(batch, own_rows)
        numbers = order[positions.start : positions.stop]
        num_tasks = _TASKS_PER_THREAD * self.num_threads
        return self._assembly.start(numbers, self._sampling.seed, epoch, positions.start, painters, num_tasks)

    def _own_positions(self, batch: int, own_rows: OwnRows) -> range:
        positions = self._sampling.positions(batch)
        own = own_rows(len(positions))
        return positions[own.start : own.stop]

    def __getitem__(self, batch: int) -> Batch:
        """Batch `batch` of the next iteration's first epoch, made at once."""
        if not -len(self) <= batch < len(self):
            raise IndexError(f"batch {batch} of {len(self)}")
        epoch, positions = self._begin.epoch, self._sampling.positions(batch % len(self))
        numbers = self._order_of(epoch)[positions.start : positions.stop]
        place = numbers, self._sampling.seed, epoch, positions.start
        if self._decoding.decided(self._images_per_second) == "cpu":
            return cast(Batch, self._assembly.make(*place))
        painters = self._decoding.painters()
        try:
            return cast(Batch, self._assembly.start(*place, painters, num_tasks=1).wait())
        finally:
            painters.leave()

    def __enter__(self) -> Self:
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
        """Number of rows of a global batch."""
        return self._sampling.batch_size

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes that the targets count, or of the places of a vector; None without names.

        Without targets, or with several, these are the names for the column `label`.
        """
        return self._assembly.class_names

    @property
    def epoch(self) -> int:
        """Epoch of the next batch, counted from 0.

        Example:
            >>> import abreast
            >>> import numpy as np
            >>> from abreast.records import pack
            >>> summary = pack(np.zeros((10, 40, 40, 3), np.uint8), "images.pack")
            >>> records = abreast.ImageRecords("images.pack", 4, size=32, targets=None)
            >>> for images in records:
            ...     pass
            >>> records.epoch
            1
        """
        return self._next.epoch

    def state(self, epoch: int | None = None, batch: int | None = None) -> dict[str, Any]:
        """A place in the sequence of batches, as a dictionary for JSON; `restore` continues there.

        Args:
            epoch: number of the epoch, from 0. By default the place is after the last batch that was given.
            batch: number of the batch in it, from 0. A caller that reads ahead, as `fit` may do, must give both.

        Raises:
            DataError: there is no such place, or only one of the two is given.

        Example:
            >>> import abreast
            >>> import numpy as np
            >>> from abreast.records import pack
            >>> summary = pack(np.zeros((10, 40, 40, 3), np.uint8), "images.pack")
            >>> records = abreast.ImageRecords("images.pack", 4, size=32, targets=None)
            >>> state = records.state(epoch=3, batch=1)
            >>> state["epoch"], state["batch"]
            (3, 1)
            >>> records.restore(state)
            >>> len(list(records))  # the rest of that epoch
            2
        """
        if (epoch is None) != (batch is None):
            raise DataError("epoch and batch belong together", "give both, or none")
        place = self._next if epoch is None or batch is None else self._checked(Place(epoch, batch))
        return {**self._sequence(), "decoder": self._decoding.decoder, "epoch": place.epoch, "batch": place.batch}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration, or the next `fit`, begin at a place.

        Args:
            state: a dictionary of `state`, also of another process.

        Raises:
            DataError: it is not a state, or belongs to a loader with other batches.
        """
        place = self._place_of(state)
        self._decoding.restore(state.get("decoder"))
        self._go_to(place)
        self._restored = True

    def _place_of(self, state: Mapping[str, Any]) -> Place:
        """The place of a `state`. Raises `DataError` if it belongs to other batches."""
        hint = "give a dictionary that state() returned"
        if not isinstance(state, Mapping):
            raise DataError(f"this is not a state: {state!r:.100}", hint)
        wanted = self._sequence()
        missing = [name for name in (*wanted, "epoch", "batch") if name not in state]
        if missing:
            raise DataError(f"this is not a state: {', '.join(missing)} is missing", hint)
        other = {name: state[name] for name in wanted if state[name] != wanted[name]}
        if other:
            what = ", ".join(f"{name} was {value} and is {wanted[name]}" for name, value in other.items())
            raise DataError(f"the state belongs to other batches: {what}", "use the settings that it was saved with")
        return self._checked(Place(state["epoch"], state["batch"]))

    def _go_to(self, place: Place) -> None:
        """Make the next iteration begin at a place."""
        self._begin = self._next = place

    def _leave_iterations(self) -> None:
        """End the threads of all iterations, which cannot continue.

        A failed `fit` leaves its iterator in a reference cycle. The garbage collector would end it at any time, even while
        Python starts a thread, and Python 3.11 then waits for ever: starting and joining a thread take the same lock.
        """
        for painters in list(self._painting):
            painters.leave()

    def close(self) -> None:
        """Close the files, and end the decoding processes. Batches stay valid. The end of a `with` block does it."""
        self._assembly.batches.sizes.close()
        self._decoding.close()

    def _checked(self, place: Place) -> Place:
        if not (type(place.epoch) is type(place.batch) is int and place.epoch >= 0 and 0 <= place.batch <= len(self)):
            raise DataError(f"epoch {place.epoch!r}, batch {place.batch!r} of {len(self)}", "both are counted from 0")
        return Place(place.epoch + 1, 0) if place.batch == len(self) else place

    def _sequence(self) -> dict[str, Any]:
        """The settings that determine the sequence of batches."""
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
        """The rate of these painters, measured by making the next batches repeatedly."""
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

    def _read_ahead(self, epoch: int, order: Numbers, batches: range, own_rows: OwnRows) -> None:
        for batch in batches:
            if batch < len(self):
                positions = self._own_positions(batch, own_rows)
                numbers = order[positions.start : positions.stop]
                self._assembly.will_need(numbers, self._sampling.seed, epoch, positions.start)


def _again(kind: type[Loader[Any]], folder: str, settings: dict[str, Any], begin: Place) -> Loader[Any]:
    loader = kind(folder, **settings)
    loader._go_to(begin)
    return loader


def _view(augment: Any) -> RandomCrop | CenterCrop:
    if isinstance(augment, bool):
        return RandomCrop() if augment else CenterCrop()
    if isinstance(augment, RandomCrop | CenterCrop):
        return augment
    hint = "give True for random crops, False for the centre, or abreast.records.RandomCrop(...) or CenterCrop(...)"
    raise DataError(f"augment={augment!r:.100} is not allowed", hint)


def checked_size(size: Any) -> tuple[int, int]:
    """Height and width of a `size`. Raises `DataError` for an invalid one."""
    sides = (size, size) if isinstance(size, int) else size
    if (
        isinstance(sides, tuple | list)
        and [*map(type, sides)] == [int, int]
        and 0 < min(sides) <= max(sides) <= _MAX_SIDE
    ):
        return sides[0], sides[1]
    raise DataError(
        f"size={size!r:.100} is not allowed", "give a number of pixels, as 224, or height and width, as (192, 256)"
    )
