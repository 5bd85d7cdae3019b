"""`pack`: any source of images becomes a data set on the disk. One thread per core prepares the samples."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from abreast.cpu import num_cores
from abreast.errors import DataError
from abreast.provenance import package_versions
from abreast.records.extras import PACKAGES, extra
from abreast.records.format.index import Note
from abreast.records.format.keys import printable
from abreast.records.format.manifest import Manifest
from abreast.records.packing.destination import check_parts, opened
from abreast.records.packing.durable import Files
from abreast.records.packing.prepare import STORAGES, Recipe, Storage, prepare
from abreast.records.packing.progress import Progress, Summary, Ticker, together
from abreast.records.packing.repeated import check_repeated
from abreast.records.packing.shard_writer import Packed
from abreast.records.packing.split import Draw, drawn_parts, existing_parts, split_of
from abreast.records.packing.writer import DatasetWriter, Refused
from abreast.records.reading.reader import Records
from abreast.records.sources.choose import shuffled, source_of
from abreast.records.sources.labels import Label, label_of, labelled, with_label
from abreast.records.sources.selected import Selected, selection
from abreast.records.sources.source import Item, ItemSource
from abreast.records.threads import Pool

OnError = Literal["stop", "skip"]

_AHEAD_PER_THREAD = 4
_DEFAULT_QUALITY = 95

# The packages that make the stored bytes.
_WRITERS = ("numpy", "opencv-python-headless", "pillow", "simplejpeg")


def pack(
    source: Any,
    dest: str | PathLike[str],
    *,
    size: int | None = None,
    quality: int | None = None,
    storage: Storage = "jpeg",
    threads: int | None = None,
    shard_mb: float = 1000,
    shuffle_seed: int | None = None,
    split: str | Mapping[str, float] | Sequence[str] | None = None,
    split_seed: int = 0,
    image: str | None = None,
    columns: str | Sequence[str] | Mapping[str, str] | None = None,
    label: str | Sequence[str] | None = None,
    label_separator: str | None = None,
    class_names: str | PathLike[str] | Sequence[str] | None = None,
    on_error: OnError = "stop",
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Pack images into the folder `dest`. After a stop, the same call continues after the last whole shard.

    `source` is a folder of images, a folder with a folder per class, a list, a CSV or Parquet table, shards (WebDataset,
    TFRecord, RecordIO), a data set of Hugging Face, NumPy arrays, or an iterable of samples. Images whose short side is
    longer than `size` pixels are made smaller. `quality` is JPEG's, 95 by default. `split` makes a data set of each part,
    in a folder of `dest`: `{"train": 0.9, "val": 0.1}` draws the parts by key and `split_seed`; `["train", "val"]` takes
    the parts that the source has. `image` names the column, feature or extension that holds the images, if it cannot be
    found automatically. `columns` selects columns, and a dictionary also renames them: `{new name: old name}`. `label`
    names the column that labels the images: its words become class numbers in a column `label`, with their names in
    order. Several columns, a list of tags, or cells of tags with a `label_separator` between them become one vector
    of float32. `class_names` gives the names in another order: a list, a file with a name on each line, or a packed data set.
    `on_error="skip"` leaves out images that cannot be packed, and the summary says why. Raises `DataError`.
    """
    for module in PACKAGES:
        extra(module)
    size, quality, threads = _whole("size", size), _whole("quality", quality), _whole("threads", threads)
    shuffle_seed = _whole("shuffle_seed", shuffle_seed)
    recipe = _recipe(storage, size, quality)
    if on_error not in ("stop", "skip"):
        raise DataError(f"on_error cannot be {on_error!r}", "use stop or skip")
    if not 0 < shard_mb < math.inf or (threads is not None and threads < 1):
        raise DataError(f"shard_mb={shard_mb} and threads={threads} must be numbers above 0")
    folder = _folder(dest)
    with _readable():
        _check_apart(source, folder)
    names = None if columns is None else selection(columns)
    with _readable():
        made = label_of(label, label_separator, class_names)
    names = with_label(names, made)
    asked = {
        "storage": storage,
        "size": size,
        "quality": recipe.quality if storage == "jpeg" else None,
        "shard_mb": float(shard_mb),
        "shuffle_seed": shuffle_seed,
        **({} if image is None else {"image": image}),
        **({} if names is None else {"columns": [f"{new}={old}" for new, old in names.items()]}),
        **({} if made is None else made.settings),
    }

    def packed(found: ItemSource, folder: Path, **part: Any) -> Summary:
        chosen = found if names is None else Selected(found, names)
        settings = asked | part | {"source": chosen.identity}
        return _packed(chosen, folder, settings, recipe, threads or num_cores(), on_error == "skip", progress)

    wanted = Wanted(image, None if names is None else list(names.values()), made, shuffle_seed, on_error == "stop")
    if split is None:
        with _readable():
            found = wanted.whole(source)
        return packed(found, folder)
    chosen = split_of(split, _whole("split_seed", split_seed) or 0)
    with _readable():
        parts, described = _parts(source, chosen, wanted)
        check_parts(folder, list(parts))
    return together(
        folder, {name: packed(part, folder / name, split=[name, *described]) for name, part in parts.items()}
    )


def _folder(dest: str | PathLike[str]) -> Path:
    if not fspath(dest):
        raise DataError("the folder to make has no name", "name a folder that is empty or does not exist yet")
    return Path(fspath(dest))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Turn an `OSError` of reading the source into a `DataError`."""
    try:
        yield
    except OSError as error:
        hint = "make it readable, or name another source"
        raise DataError(f"cannot read {error.filename or 'the source'}: {error.strerror or error}", hint) from error


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a source: its column of images, the columns to keep, a label, and an order.

    `stop`: an item without a label is an error before anything is packed.
    """

    image: str | None
    columns: Sequence[str] | None
    label: Label | None
    shuffle_seed: int | None
    stop: bool

    def whole(self, source: Any) -> ItemSource:
        return self._finished({"": source_of(source, self.image, *self._columns())})[""]

    def parts(self, source: Any, names: Sequence[str]) -> dict[str, ItemSource]:
        """The parts that the source has."""
        return self._finished(existing_parts(source, names, self.image, *self._columns()))

    def _columns(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        of = () if self.label is None else self.label.columns
        return None if self.columns is None else [*self.columns, *of], of

    def _finished(self, sources: dict[str, ItemSource]) -> dict[str, ItemSource]:
        seed = self.shuffle_seed
        if seed is not None:
            sources = {name: shuffled(source, seed) for name, source in sources.items()}
        return sources if self.label is None else labelled(sources, self.label, self.stop)


def _parts(source: Any, split: Draw | tuple[str, ...], wanted: Wanted) -> tuple[dict[str, ItemSource], list[Any]]:
    """A source for each part, and the settings that identify the split."""
    if isinstance(split, Draw):
        shares = [[name, share] for name, share in split.shares.items()]
        return drawn_parts(wanted.whole(source), split), [split.seed, shares]
    return wanted.parts(source, split), []


def _whole(name: str, value: int | None) -> int | None:
    """The value as Python's own integer; NumPy's integers are accepted."""
    try:
        return None if value is None else operator.index(value)
    except TypeError:
        raise DataError(f"{name} must be a whole number, not {value!r:.80}") from None


def _check_apart(source: Any, folder: Path) -> None:
    """Raise `DataError` for a folder inside of its source: the next run would find other images there."""
    if isinstance(source, str | PathLike) and fspath(source) and Path(fspath(source)).is_dir():
        # `Path.resolve` raises at a loop of links.
        inner, outer = (Path(os.path.realpath(path)) for path in (folder, source))
        if inner.is_relative_to(outer):
            raise DataError(f"{folder} is inside of its source, {source}", "name a folder outside of it")


def _recipe(storage: Storage, size: int | None, quality: int | None) -> Recipe:
    if storage not in STORAGES:
        raise DataError(f"storage cannot be {storage!r}", f"use one of {', '.join(STORAGES)}")
    if quality is not None and storage != "jpeg":
        raise DataError(f"storage {storage} has no quality", "leave quality out, or use the storage jpeg")
    if size is not None and storage == "keep":
        raise DataError("storage keep leaves images as they are, and cannot change their size", "leave size out")
    if not 1 <= (quality or _DEFAULT_QUALITY) <= 100 or quality == 0:
        raise DataError(f"quality must be from 1 to 100, not {quality}")
    if size is not None and size < 1:
        raise DataError(f"size must be one pixel or more, not {size}")
    return Recipe(storage, size, quality or _DEFAULT_QUALITY)


def _packed(
    source: ItemSource,
    folder: Path,
    settings: dict[str, Any],
    recipe: Recipe,
    num_threads: int,
    skip: bool,
    progress: Callable[[Progress], None] | None,
) -> Summary:
    shard_bytes = int(settings["shard_mb"] * 1e6)
    with opened(folder, settings, shard_bytes, Files()) as state:
        if isinstance(state, Manifest):
            with Records(folder) as records:
                return _summary(folder, state, 0, 0.0, records.notes())
        state.columns = state.columns or source.columns
        begin = state.source_end
        ticker = Ticker(progress, source.num_items, begin)
        items = _items(source, settings["source"] is not None, state)
        for position, item, result in _prepared(items, begin, recipe, num_threads):
            ticker.count(_take(state, position, item, result, skip))
        ticker.report()
        whole = state.finish(begin + ticker.num_now, source.class_names, package_versions("abreast", *_WRITERS))
        num_packed = ticker.num_now - ticker.num_skipped
        return _summary(folder, whole, num_packed, ticker.seconds, tuple(state.notes))


def _items(source: ItemSource, known: bool, writer: DatasetWriter) -> Iterator[Item]:
    """The items that are not packed yet.

    A source that is not `known` by its settings is read from its beginning, and compared with the packed samples.
    """
    if known:
        return source.items(writer.source_end)
    items = source.items(0)
    check_repeated(items, [writer.folder / f"{shard.name}.index" for shard in writer.shards], writer.notes)
    return items


_Result = tuple[Packed, str | None]


def _prepared(
    items: Iterator[Item], begin: int, recipe: Recipe, num_threads: int
) -> Iterator[tuple[int, Item, Future[_Result]]]:
    """Position, item and result of each item, in order. Threads prepare some items ahead."""
    pool = Pool(num_threads, "abreast-pack", "threads")
    ahead: deque[tuple[int, Item, Future[_Result]]] = deque()
    try:
        for position, item in enumerate(items, start=begin):
            ahead.append((position, item, pool.submit(prepare, item, recipe)))
            if len(ahead) > _AHEAD_PER_THREAD * num_threads:
                yield ahead.popleft()
        while ahead:
            yield ahead.popleft()
    finally:
        pool.shutdown(cancel_futures=True)


def _take(writer: DatasetWriter, position: int, item: Item, result: Future[_Result], skip: bool) -> bool:
    """Write one sample. True if it was skipped instead."""
    try:
        packed, text = result.result()
    except DataError as error:
        return _refused(writer, position, item, error, skip)
    try:
        writer.add(position, packed)
    except Refused as error:
        return _refused(writer, position, item, error, skip)
    if text is not None:
        writer.note(_note(position, item, text, skipped=False))
    return False


def _refused(writer: DatasetWriter, position: int, item: Item, error: DataError, skip: bool) -> bool:
    if not skip:
        hint = error.hint or 'mend or remove it, or leave out such images with on_error="skip" (--on-error skip)'
        raise DataError(f"{_name(item)} (number {position} of the source): {error.message}", hint) from error
    writer.note(_note(position, item, error.message, skipped=True))
    return True


def _note(position: int, item: Item, text: str, skipped: bool) -> Note:
    return Note(position, printable(item.key), printable(text), skipped)


def _name(item: Item) -> str:
    return printable(str(item.image) if isinstance(item.image, Path) else item.key)


def _summary(folder: Path, whole: Manifest, num_now: int, seconds: float, notes: tuple[Note, ...]) -> Summary:
    file_bytes = sum(shard.tar_bytes + shard.index_bytes for shard in whole.shards)
    return Summary(folder, whole.num_samples, num_now, len(whole.shards), file_bytes, seconds, notes)
