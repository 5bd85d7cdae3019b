"""`pack`: any source of images becomes a data set on the disk. One thread per core prepares the samples."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from abreast.cpu import num_cores
from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.provenance import package_versions
from abreast.records.extras import PACKAGES, extra
from abreast.records.format.index import Note
from abreast.records.format.manifest import Manifest
from abreast.records.packing.destination import check_parts, opened
from abreast.records.packing.prepare import STORAGES, Recipe, Result, Storage, name_of, note_of, prepared
from abreast.records.packing.progress import Progress, Summary, Ticker, together
from abreast.records.packing.question import answer
from abreast.records.packing.repeated import check_repeated
from abreast.records.packing.skipped import SkippedFile
from abreast.records.packing.split import split_of
from abreast.records.packing.wanted import Wanted, parts_of, readable
from abreast.records.packing.writer import DatasetWriter, Refused
from abreast.records.reading.reader import Records
from abreast.records.sources.labels import label_of, with_label
from abreast.records.sources.selected import Selected, selection
from abreast.records.sources.source import Item, ItemSource

OnError = Literal["stop", "skip"]

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
    split_by: str | None = None,
    image: str | None = None,
    columns: str | Sequence[str] | Mapping[str, str] | None = None,
    label: str | Sequence[str] | None = None,
    label_separator: str | None = None,
    class_names: str | PathLike[str] | Sequence[str] | None = None,
    on_error: OnError = "stop",
    dry_run: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """A new data set in the folder `dest`. After a stop, the same call continues after the last whole shard.

    Args:
        source: a folder of images, a folder with a folder per class, a list, a CSV or Parquet table, shards (WebDataset,
            TFRecord, RecordIO), a data set of Hugging Face, images as a `uint8` array of shape (n, height, width, channels),
            alone, with labels (`(images, labels)`) or in a dictionary of columns, or an iterable of samples (`Item`).
        dest: a folder that is empty or does not exist yet, or that an earlier call with the same arguments began.
        size: images whose short side is longer than this number of pixels are made smaller.
        quality: JPEG's, from 1 to 100; 95 by default.
        storage: `"jpeg"`, `"raw"` (pixels), `"png"`, or `"keep"` for the bytes of each file as they are.
        threads: number of threads; by default one per core.
        shard_mb: megabytes of a shard, at most.
        shuffle_seed: pack in an order that depends on this number and the keys; None keeps the source's order.
        split: make a data set of each part, in a folder of `dest`: `{"train": 0.9, "val": 0.1}` draws the parts by key,
            `["train", "val"]` takes the parts that the source has.
        split_seed: the number that chooses the parts, with the keys.
        split_by: a column of classes, such as `"label"`; each class has its share in each part.
        image: the column, feature or extension that holds the images, if it cannot be found automatically.
        columns: the columns to keep; a dictionary also renames them: `{new name: old name}`.
        label: the column whose words become class numbers in a column `label`, with their names. Several columns, a list of
            tags, or cells of tags become one vector of float32, shape (classes,).
        label_separator: the text between the tags of a cell.
        class_names: the names in another order than sorted: a list, a file with a name on each line, or a packed data set.
        on_error: `"stop"` raises at an image that cannot be packed; `"skip"` leaves it out, and the summary and a file beside
            `dest` say why.
        dry_run: make everything except the data set; the summary lists the images that would fail.
        progress: called with a `Progress` at most twice a second.

    Returns:
        A `Summary`.

    Raises:
        DataError: the source, an image or a setting is refused, or a file cannot be read or written.

    Example:
        >>> import numpy as np
        >>> from abreast.records import pack
        >>> images = np.random.default_rng(0).integers(0, 256, (20, 48, 64, 3), np.uint8)
        >>> pack((images, np.arange(20)), "digits.pack", size=32, storage="png").num_samples
        20
        >>> pack((images, np.arange(20)), "parts", split={"train": 0.8, "val": 0.2}).parts["val"].folder.name
        'val'
    """
    for module in PACKAGES:
        extra(module)
    size, quality, threads = _whole("size", size), _whole("quality", quality), _whole("threads", threads)
    shuffle_seed = _whole("shuffle_seed", shuffle_seed)
    recipe = checked_recipe(storage, size, quality)
    if on_error not in ("stop", "skip"):
        raise DataError(f"on_error cannot be {on_error!r}", "use stop or skip")
    _check_above_zero("shard_mb", shard_mb)
    _check_above_zero("threads", threads)
    folder = _folder(dest)
    with readable():
        _check_apart(source, folder)
        made = label_of(label, label_separator, class_names)
    names = with_label(None if columns is None else selection(columns), made)
    asked = {
        "storage": storage,
        "size": size,
        "quality": recipe.quality if storage == "jpeg" else None,
        "shard_mb": float(shard_mb),
        "shuffle_seed": shuffle_seed,
        **({} if image is None else {"image": image}),
        **({} if names is None else {"columns": [f"{new}={old}" for new, old in names.items()]}),
        **({} if made is None else made.settings),
        **({} if split_by is None else {"split_by": split_by}),
    }
    stop = on_error == "stop" and not dry_run
    num_threads, skipped = threads or num_cores(), SkippedFile(folder, stop)

    def packed(found: ItemSource, folder: Path, **part: Any) -> Summary:
        chosen = found if names is None else Selected(found, names)
        settings = asked | part | {"source": chosen.identity}
        if dry_run:
            return answer(chosen, folder, settings, recipe, num_threads, progress)
        return _packed(chosen, folder, settings, recipe, num_threads, skipped, progress)

    wanted = Wanted(image, None if names is None else list(names.values()), made, shuffle_seed, stop)
    if split is None:
        if split_by is not None:
            raise DataError(f"split_by={split_by!r} means nothing without split", "write split too: train=0.9,val=0.1")
        with readable():
            found = wanted.whole(source)
        return packed(found, folder)
    chosen = split_of(split, _whole("split_seed", split_seed) or 0)
    with readable():
        parts, described = parts_of(source, chosen, split_by, wanted)
        check_parts(folder, list(parts))
    return together(
        folder, {name: packed(part, folder / name, split=[name, *described]) for name, part in parts.items()}
    )


def _folder(dest: str | PathLike[str]) -> Path:
    if not fspath(dest):
        raise DataError("the folder to make has no name", "name a folder that is empty or does not exist yet")
    return Path(fspath(dest))


def _whole(name: str, value: int | None) -> int | None:
    """The value as Python's own integer; NumPy's integers are accepted."""
    try:
        return None if value is None else operator.index(value)
    except TypeError:
        raise DataError(f"{name} must be a whole number, not {value!r:.80}") from None


def _check_above_zero(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise DataError(f"{name}={value} must be a number above 0")


def _check_apart(source: Any, folder: Path) -> None:
    """Raise `DataError` for a folder inside its source: the next run would find other images there."""
    if isinstance(source, str | PathLike) and fspath(source) and Path(fspath(source)).is_dir():
        # `Path.resolve` raises at a loop of links.
        inner, outer = (Path(os.path.realpath(path)) for path in (folder, source))
        if inner.is_relative_to(outer):
            raise DataError(f"{folder} is inside of its source, {source}", "name a folder outside of it")


def checked_recipe(storage: Storage, size: int | None, quality: int | None) -> Recipe:
    """The recipe for storing images. Raises `DataError` for invalid settings."""
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
    skipped: SkippedFile,
    progress: Callable[[Progress], None] | None,
) -> Summary:
    shard_bytes = int(settings["shard_mb"] * 1e6)
    with opened(folder, settings, shard_bytes, Files()) as state:
        if isinstance(state, Manifest):
            with Records(folder) as records:
                return _summary(folder, state, 0, 0.0, records.notes(), skipped, {})
        state.columns = state.columns or source.columns
        begin = state.source_end
        ticker, names = Ticker(progress, source.num_items, begin), dict[int, str]()
        items = _items(source, settings["source"] is not None, state)
        for position, item, result in prepared(items, begin, recipe, num_threads):
            ticker.count(_take(state, position, item, result, skipped, names))
        ticker.report()
        whole = state.finish(begin + ticker.num_now, source.class_names, package_versions("abreast", *_WRITERS))
        num_packed = ticker.num_now - ticker.num_skipped
        skipped.remove_if_old()
        return _summary(folder, whole, num_packed, ticker.seconds, tuple(state.notes), skipped, names)


def _items(source: ItemSource, known: bool, writer: DatasetWriter) -> Iterator[Item]:
    """The items that are not packed yet.

    A source that is not `known` by its settings is read from its beginning, and compared with the packed samples.
    """
    if known:
        return source.items(writer.source_end)
    items = source.items(0)
    check_repeated(items, [writer.folder / f"{shard.name}.index" for shard in writer.shards], writer.notes)
    return items


def _take(
    writer: DatasetWriter,
    position: int,
    item: Item,
    result: Future[Result],
    skipped: SkippedFile,
    names: dict[int, str],
) -> bool:
    """Write one sample. True if it was skipped instead. `names` gets the names of noted items."""
    try:
        packed, text = result.result()
    except DataError as error:
        names[position] = name_of(item)
        return _refused(writer, position, item, error, skipped)
    try:
        writer.add(position, packed)
    except Refused as error:
        names[position] = name_of(item)
        return _refused(writer, position, item, error, skipped)
    if text is not None:
        names[position] = name_of(item)
        writer.note(note_of(position, item, text, skipped=False))
    return False


def _refused(writer: DatasetWriter, position: int, item: Item, error: DataError, skipped: SkippedFile) -> bool:
    if skipped.stops:
        hint = error.hint or 'repair or remove it, or leave out such images with on_error="skip" (--on-error skip)'
        raise DataError(f"{name_of(item)} (number {position} of the source, from 0): {error.message}", hint) from error
    skipped.add(name_of(item), error.message)
    writer.note(note_of(position, item, error.message, skipped=True))
    return True


def _summary(
    folder: Path,
    whole: Manifest,
    num_now: int,
    seconds: float,
    notes: tuple[Note, ...],
    skipped: SkippedFile,
    names: Mapping[int, str],
) -> Summary:
    listed = skipped.path if any(note.skipped for note in notes) and os.path.isfile(skipped.path) else None
    counts = whole.num_samples, num_now, len(whole.shards), whole.file_bytes, seconds
    return Summary(folder, *counts, notes, skipped_file=listed, names=names)
