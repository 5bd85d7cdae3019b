"""Items of a source become stored samples: read, decode, turn, shrink, encode. This runs in threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from abreast.errors import DataError, a_type
from abreast.records.decoding.images import Pixels, check_file_bytes, read_picture, shrink
from abreast.records.decoding.jpeg import restart_lengths
from abreast.records.format.index import MAX_PIXELS, Note
from abreast.records.format.keys import printable
from abreast.records.packing.encoder import encode
from abreast.records.packing.shard_writer import Packed
from abreast.records.sources.source import Item
from abreast.records.threads import Pool

_AHEAD_PER_THREAD = 4

Storage = Literal["jpeg", "raw", "png", "keep"]
STORAGES: tuple[str, ...] = get_args(Storage)


@dataclass(frozen=True)
class Recipe:
    """A rule for storing images. `size` is the largest short side in pixels, None for no limit."""

    storage: Storage = "jpeg"
    size: int | None = None
    quality: int = 95


def prepare(item: Item, recipe: Recipe) -> tuple[Packed, str | None]:
    """The sample, and a note if it could not be made exactly. Raises `DataError` for an image that is refused."""
    for value in (item.image, *item.columns.values()):
        if isinstance(value, DataError):
            raise value
    if recipe.storage == "keep":
        return _kept(item)
    pixels, note = _pixels(item, recipe.size)
    encoding, data, restarts = encode(pixels, recipe.storage, recipe.quality)
    height, width, channels = pixels.shape
    return Packed(item.key, data, encoding, height, width, channels, dict(item.columns), restarts=restarts), note


Result = tuple[Packed, str | None]


def prepared(
    items: Iterator[Item], begin: int, recipe: Recipe, num_threads: int
) -> Iterator[tuple[int, Item, Future[Result]]]:
    """Position, item and result of each item, in order. Threads prepare some items ahead."""
    pool = Pool(num_threads, "abreast-pack", "threads")
    ahead: deque[tuple[int, Item, Future[Result]]] = deque()
    try:
        for position, item in enumerate(items, start=begin):
            ahead.append((position, item, pool.submit(prepare, item, recipe)))
            if len(ahead) > _AHEAD_PER_THREAD * num_threads:
                yield ahead.popleft()
        while ahead:
            yield ahead.popleft()
    finally:
        pool.shutdown(cancel_futures=True)


def note_of(position: int, item: Item, text: str, skipped: bool) -> Note:
    return Note(position, printable(item.key), printable(text), skipped)


def name_of(item: Item) -> str:
    return printable(str(item.image) if isinstance(item.image, Path) else item.key)


def _kept(item: Item) -> tuple[Packed, str | None]:
    if isinstance(item.image, np.ndarray):
        raise DataError("an array has no file to keep", "use the storage png or raw")
    data = _bytes(item.image)
    picture = read_picture(data)  # also checks that the file can be decoded
    height, width, channels = picture.pixels.shape
    packed = Packed(
        item.key,
        data,
        picture.encoding,
        height,
        width,
        channels,
        dict(item.columns),
        orientation=picture.orientation,
        plain=picture.plain,
        restarts=restart_lengths(data) if picture.encoding == "jpg" else None,
    )
    return packed, picture.note


def _pixels(item: Item, size: int | None) -> tuple[Pixels, str | None]:
    if isinstance(item.image, np.ndarray):
        return np.ascontiguousarray(shrink(_checked(item.image), size)), None
    picture = read_picture(_bytes(item.image), size)
    return np.ascontiguousarray(picture.pixels), picture.note


def _checked(image: Any) -> Pixels:
    pixels: Pixels = image[:, :, None] if image.ndim == 2 else image
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or not pixels.size:
        hint = "give uint8 of shape (height, width), or (height, width, channels) with 1 or 3 channels"
        raise DataError(f"this is not an image: {image.dtype} of shape {image.shape}", hint)
    if pixels.shape[0] * pixels.shape[1] > MAX_PIXELS:
        raise DataError(f"refused: {pixels.shape[1]} x {pixels.shape[0]} pixels are more than {MAX_PIXELS}")
    return pixels


def _bytes(image: Any) -> bytes:
    if isinstance(image, bytes):
        check_file_bytes(len(image))
        return image
    if not isinstance(image, Path):
        raise DataError(f"an image must be a path, bytes or an array, not {a_type(image)}")
    try:
        if not image.is_file():
            raise DataError("there is no such file")
        with image.open("rb") as file:
            check_file_bytes(os.fstat(file.fileno()).st_size)
            return file.read()
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"cannot read the file: {error}") from None
