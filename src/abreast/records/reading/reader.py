"""`Records`: samples of a packed data set by number. Bytes and columns come from mapped memory, and are always checked.

Many threads may use one `Records`. It works after `fork`, and can be pickled: other processes open the files themselves.
"""

from __future__ import annotations

import bisect
import errno
import hashlib
import itertools
import mmap
import os
import stat
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast import notebook
from abreast.errors import DataError
from abreast.nearest import nearest
from abreast.records.format import index_file, manifest
from abreast.records.format.checksum import crc32c
from abreast.records.format.columns import TEXT, Array, ColumnType
from abreast.records.format.index import ENCODINGS, HINT, Index, Note
from abreast.units import counted

Numbers = npt.NDArray[np.int64]  # of samples

_LIKE = 0.6  # share of letters that a mistyped name has in common with the right one


@dataclass(frozen=True)
class Sample:
    """A stored image with its columns.

    Attributes:
        number: its number in the data set, from 0.
        key: its name, such as `cats/1.jpg`.
        data: the stored bytes, in mapped memory.
        encoding: `"npy"` for raw pixels, or an extension such as `"jpg"`.
        height: height of the upright image in pixels.
        width: its width in pixels.
        channels: 1 (gray) or 3 (red, green, blue).
        orientation: EXIF's, and 1 except for images stored with `storage="keep"`.
        plain: True if a decoder's pixels are final: they need no turning and no other colours.
        restarts: number of bytes of each segment of a JPEG that can be cut; else empty.
        columns: values by name.

    Example:
        >>> import numpy as np
        >>> from abreast.records import Records, Sample, pack
        >>> summary = pack((np.zeros((3, 32, 48, 3), np.uint8), [7, 8, 9]), "digits.pack")
        >>> sample: Sample = Records("digits.pack")[2]
        >>> sample.height, sample.width, sample.channels, sample.encoding
        (32, 48, 3, 'jpg')
        >>> int(sample.columns["label"])
        9
    """

    number: int
    key: str
    data: memoryview
    encoding: str
    height: int
    width: int
    channels: int
    orientation: int
    plain: bool
    restarts: npt.NDArray[np.unsignedinteger[Any]]
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class _Shard:
    path: Path  # of the tar
    index: Index
    memory: mmap.mmap
    data: npt.NDArray[np.uint8]  # a view of `memory`

    def place(self, i: int) -> tuple[int, int]:
        begin = int(self.index.samples["offset"][i])
        return begin, begin + int(self.index.samples["length"][i])

    def will_need(self, i: int) -> None:
        begin, end = self.place(i)
        first = begin - begin % mmap.PAGESIZE
        self.memory.madvise(mmap.MADV_WILLNEED, first, end - first)

    def sample(self, i: int, with_columns: bool) -> Sample:
        # All fields are read at once: one by one they would take longer than the checksum.
        begin, size, _, _, checksum, height, width, channels, encoding, orientation, plain = self.index.samples[
            i
        ].item()
        data = self.data[begin : begin + size]
        number = self.index.first_sample + i
        if crc32c(data) != checksum:
            what = f"sample {number} ({self.index.keys[i]}), bytes {begin} to {begin + size}, has a wrong checksum"
            raise DataError(f"{self.path} is damaged: {what}", HINT)
        return Sample(
            number=number,
            key=self.index.keys[i],
            data=data.data,
            encoding=ENCODINGS[encoding],
            height=height,
            width=width,
            channels=channels,
            orientation=orientation,
            plain=bool(plain),
            restarts=self.index.restarts_of(i),
            columns=self._columns(i) if with_columns else {},
        )

    def _columns(self, i: int) -> dict[str, Any]:
        try:
            return {name: stored.value(i) for name, stored in self.index.columns.items()}
        except ValueError as error:  # text that is not UTF-8, or an empty shape that is too large for an array
            what = f"the columns of sample {self.index.first_sample + i} cannot be read: {error}"
            raise DataError(f"{self.path}: {what}", HINT) from None


class Records:
    """A packed data set: samples by number, from 0. `len`, indices, iteration and `with` work as for a list that is closed.

    Opening it reads the manifest and the sizes of files. Each shard is opened when it is first used, and every byte that is
    read is checked. Many threads may share one `Records`. It works in forked processes, and can be pickled.

    Args:
        folder: the folder that `pack` made.

    Attributes:
        folder: its path.
        manifest: counts, columns, settings and checksums of the data set.

    Raises:
        DataError: the folder is not a complete data set; later, as soon as a damaged file is read.

    Example:
        >>> import numpy as np
        >>> from abreast.records import Records, pack
        >>> summary = pack((np.zeros((3, 32, 48, 3), np.uint8), [7, 8, 9]), "digits.pack")
        >>> records = Records("digits.pack")
        >>> records
        <Records digits.pack: 3 samples in 1 shard, columns: label>
        >>> len(records), records[2].key, records.column("label").tolist()
        (3, '00000002', [7, 8, 9])
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(fspath(folder))
        self.manifest = manifest.read(self.folder)
        self._ends = list(itertools.accumulate(shard.num_samples for shard in self.manifest.shards))
        self._shards: dict[int, _Shard] = {}
        self._lock = threading.Lock()
        self._closed = False
        for shard in self.manifest.shards:
            check_size(self.folder / f"{shard.name}.tar", shard.tar_bytes)
            check_size(self.folder / f"{shard.name}.index", shard.index_bytes)
        _OPEN.add(self)

    def __len__(self) -> int:
        return self.manifest.num_samples

    def __getitem__(self, number: int) -> Sample:
        """The sample with this number, counted over all shards; -1 is the last."""
        return self.sample(number)

    def sample(self, number: int, with_columns: bool = True) -> Sample:
        """The sample with a number; the same as `records[number]`.

        Args:
            number: counted over all shards from 0; -1 is the last.
            with_columns: False leaves out the columns, which takes half of the time.

        Raises:
            IndexError: there is no such sample.
            DataError: the file is damaged, or the data set was closed.

        Example:
            >>> from abreast.records import Records, pack
            >>> import numpy as np
            >>> summary = pack(np.zeros((3, 32, 48, 3), np.uint8), "images.pack")
            >>> Records("images.pack").sample(-1, with_columns=False).number
            2
        """
        size = len(self)
        if not -size <= number < size:
            raise IndexError(f"sample {number} of {size}")
        number %= size
        place = bisect.bisect_right(self._ends, number)
        shard = self._opened(place)
        return shard.sample(number - shard.index.first_sample, with_columns)

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number in range(len(self)))

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Records], tuple[str]]:
        return Records, (str(self.folder),)

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns) or "none"
        shards = counted(len(self._ends), "shard")
        return f"<Records {self.folder}: {counted(len(self), 'sample')} in {shards}, columns: {names}>"

    def _repr_html_(self) -> str:
        facts = self.manifest
        size = f"{facts.file_bytes / 1e6:,.1f} MB"
        rows = [(each.name, each.words) for each in self.columns]
        shown = {"samples": f"{len(self):,}", "shards": f"{len(facts.shards):,}", "size": size}
        if self.class_names is not None:
            shown["classes"] = f"{len(self.class_names):,}: {', '.join(self.class_names)}"
        return notebook.shown(f"Records {self.folder}", shown, ("column", "type"), rows)

    @property
    def columns(self) -> tuple[ColumnType, ...]:
        """Name, type and shape of each column.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> summary = pack((np.zeros((3, 8, 8, 3), np.uint8), [7, 8, 9]), "digits.pack")
            >>> [column.name for column in Records("digits.pack").columns]
            ['label']
        """
        return self.manifest.columns

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes that the column `label` counts, None if the source had none.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> images = np.zeros((3, 8, 8, 3), np.uint8)
            >>> summary = pack({"image": images, "species": ["owl", "fox", "owl"]}, "animals.pack", label="species")
            >>> records = Records("animals.pack")
            >>> records.class_names, records.column("label").tolist()
            (('fox', 'owl'), [1, 0, 1])
        """
        return self.manifest.class_names

    def column(self, name: str) -> Array:
        """All values of a column of numbers, an array with samples first.

        Args:
            name: the name of the column.

        Raises:
            DataError: there is no such column, it is text or bytes, or its values have different shapes.
        """
        found = self._values(name)
        if found is None:
            numbers = [each.name for each in self.columns if self._values(each.name) is not None]
            known = name in [each.name for each in self.columns]
            what = f"not numbers of one shape in column {name!r}" if known else f"no column {name!r}"
            hint = f"{meant(name, numbers)}columns of numbers of one shape: {', '.join(numbers) or 'none'}"
            raise DataError(f"{self.folder} has {what}", hint)
        return found

    def texts(self, name: str) -> list[str]:
        """All values of a column of text, in the order of the samples.

        Args:
            name: the name of the column.

        Raises:
            DataError: there is no such column of text.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> images = np.zeros((2, 8, 8, 3), np.uint8)
            >>> summary = pack({"image": images, "place": ["Bonn", "Oslo"]}, "places.pack")
            >>> Records("places.pack").texts("place")
            ['Bonn', 'Oslo']
        """
        names = text_names(self)
        if name not in names:
            hint = f"{meant(name, names)}columns of text: {', '.join(names) or 'none'}"
            raise DataError(f"{self.folder} has no column {name!r} of text", hint)
        indexes = (self.index(place) for place in range(len(self._ends)))
        return [index.columns[name].value(row) for index in indexes for row in range(index.num_samples)]

    def _values(self, name: str) -> Array | None:
        if name not in [each.name for each in self.columns]:
            return None
        indexes = [self.index(place) for place in range(len(self._ends))]
        try:
            parts = [index.columns[name].values(index.num_samples) for index in indexes]
        except ValueError as error:
            raise DataError(f"{self.folder}: the column {name!r} cannot be read: {error}", HINT) from None
        known = [part for part in parts if part is not None]
        same = len(known) == len(parts) and len({part.shape[1:] for part in known}) == 1
        return np.concatenate(known) if same else None

    def will_need(self, numbers: Iterable[int]) -> None:
        """Ask the system to begin reading samples from the disk, if they are not in memory yet. Does not wait.

        Args:
            numbers: numbers of samples, from 0.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> summary = pack(np.zeros((3, 8, 8, 3), np.uint8), "images.pack")
            >>> Records("images.pack").will_need([0, 2])
        """
        for number in numbers:
            place = bisect.bisect_right(self._ends, number)
            shard = self._opened(place)
            shard.will_need(number - shard.index.first_sample)

    def notes(self) -> tuple[Note, ...]:
        """Notes of the packer: items that it skipped, and images that it could not pack exactly.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> images = [np.zeros((8, 8, 3), np.uint8), b"not an image"]
            >>> summary = pack(images, "images.pack", on_error="skip")
            >>> [note.skipped for note in Records("images.pack").notes()]
            [True]
        """
        return tuple(note for place in range(len(self._ends)) for note in self.index(place).notes)

    def index(self, place: int) -> Index:
        """The checked index of one shard: all facts about its samples, without their bytes.

        Args:
            place: number of the shard, from 0.

        Raises:
            DataError: the index is damaged.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> summary = pack(np.zeros((3, 8, 8, 3), np.uint8), "images.pack")
            >>> Records("images.pack").index(0).samples["height"].tolist()
            [8, 8, 8]
        """
        return self._opened(place).index

    def shards(self) -> Iterator[tuple[Path, Index]]:
        """The path of each shard's tar file with its checked index.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> summary = pack(np.zeros((3, 8, 8, 3), np.uint8), "images.pack")
            >>> [(path.name, index.num_samples) for path, index in Records("images.pack").shards()]
            [('shard-00000.tar', 3)]
        """
        for place in range(len(self._ends)):
            shard = self._opened(place)
            yield shard.path, shard.index

    def close(self) -> None:
        """Close the files, each as soon as no sample's `data` is in use any more. The end of a `with` block does it.

        Example:
            >>> import numpy as np
            >>> from abreast.records import Records, pack
            >>> summary = pack(np.zeros((3, 8, 8, 3), np.uint8), "images.pack")
            >>> Records("images.pack").close()
        """
        with self._lock:
            self._closed = True
            self._shards.clear()

    def _new_lock(self) -> None:
        self._lock = threading.Lock()

    def _opened(self, place: int) -> _Shard:
        shard = self._shards.get(place)
        if shard is not None:
            return shard
        with self._lock:
            if self._closed:
                raise DataError(f"{self.folder} was closed", "open it again with Records(...)")
            if place not in self._shards:
                self._shards[place] = self._open(place)
            return self._shards[place]

    def _open(self, place: int) -> _Shard:
        facts = self.manifest.shards[place]
        path = self.folder / f"{facts.name}.index"
        data = np.frombuffer(_mapped(path, facts.index_bytes), np.uint8)
        index = index_file.from_bytes(data.data, str(path))
        if hashlib.sha256(data.data).hexdigest() != facts.index_sha256:
            raise DataError(f"{path} is intact, but it does not belong to this {manifest.MANIFEST}", HINT)
        _check_belongs(path, index, facts, self._ends[place] - facts.num_samples, self.columns)
        tar = path.with_suffix(".tar")
        memory = _mapped(tar, facts.tar_bytes)
        return _Shard(tar, index, memory, np.frombuffer(memory, np.uint8))


def text_names(records: Records) -> list[str]:
    """The names of the columns of text."""
    return [each.name for each in records.columns if each.type == TEXT]


def meant(name: str, known: Iterable[str]) -> str:
    """The beginning of a hint for an unknown column: the nearest name, or nothing."""
    near = [each for each in nearest(name, known, like=_LIKE) if each != name][:1]
    return f"did you mean {near[0]!r}? " if near else ""


# If another thread held the lock during a fork, the child would wait for it for ever.
_OPEN: weakref.WeakSet[Records] = weakref.WeakSet()


def _renew_locks() -> None:
    for records in _OPEN:
        records._new_lock()


os.register_at_fork(after_in_child=_renew_locks)


def _check_belongs(
    path: Path, index: Index, facts: manifest.Shard, first_sample: int, columns: tuple[ColumnType, ...]
) -> None:
    """Check that an index belongs to its manifest, which may come from an untrusted source."""
    same = (index.num_samples, index.first_sample, index.shard_bytes) == (
        facts.num_samples,
        first_sample,
        facts.tar_bytes,
    )
    if not same or tuple(stored.type for stored in index.columns.values()) != columns:
        raise DataError(f"{path} does not go with {manifest.MANIFEST}", HINT)


def check_size(path: Path, size_bytes: int) -> None:
    """Raise `DataError` unless the path is a file of this size."""
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", HINT) from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} is not a file", HINT)  # opening a pipe could wait for ever
    if found.st_size != size_bytes:
        raise DataError(f"{path} has {found.st_size} bytes, and {manifest.MANIFEST} says {size_bytes}", HINT)


def _mapped(path: Path, size_bytes: int) -> mmap.mmap:
    """The file's bytes. Memory and descriptor are released with the last array that views them."""
    try:
        with path.open("rb") as file:
            check_size(path, size_bytes)
            return _map(file.fileno(), size_bytes)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        full = isinstance(error, OSError) and error.errno == errno.EMFILE
        hint = "allow more open files (`ulimit -n`): each shard takes two" if full else HINT
        raise DataError(f"cannot read {path}: {error}", hint) from None


def _map(descriptor: int, size_bytes: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ, trackfd=False)
    return mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)  # keeps a second descriptor
