"""Pictures and small data sets for the tests of records, the same each time."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from abreast.records import Item, pack
from abreast.records.packing.prepare import Storage
from abreast.records.packing.progress import Summary
from abreast.records.sources.iterable import Iterated

Pixels = npt.NDArray[np.uint8]


def photo(height: int, width: int, channels: int = 3, seed: int = 0) -> Pixels:
    """Smooth colours with some grain, as photographs have."""
    random = np.random.Generator(np.random.PCG64(seed))
    coarse = random.integers(0, 256, (6, 6, channels), np.uint8).squeeze()
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    grain = random.integers(-12, 13, (height, width, channels), np.int16)
    pixels: Pixels = np.clip(smooth.reshape(height, width, channels) + grain, 0, 255).astype(np.uint8)
    return pixels


def image_of(pixels: Pixels) -> Image.Image:
    return Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)


def file_of(pixels: Pixels | Image.Image, kind: str, **settings: Any) -> bytes:
    """The bytes of an image file, written by Pillow."""
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else image_of(pixels)
    image.save(file, kind, **settings)
    return file.getvalue()


def class_folder(folder: Path, per_class: int = 4, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    """A folder per class with small JPEGs."""
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            (folder / name / f"{i}.jpg").write_bytes(file_of(photo(40, 48, seed=100 * number + i), "JPEG", quality=90))
    return folder


def items(count: int, **settings: Any) -> list[Item]:
    """Small images with a label, boxes and a text each."""
    return [
        Item(
            f"group/{i:03d}",
            photo(8, 10, seed=i, **settings),
            {"label": i % 3, "boxes": np.arange(4 * (i % 3), dtype=np.float32).reshape(-1, 4), "text": f"Bild {i} ä"},
        )
        for i in range(count)
    ]


@dataclass(frozen=True)
class Known(Iterated):
    """An iterable that names itself, so that the same one can be packed again."""

    identity: dict[str, Any] | None = None


def known(samples: Any, name: str = "items") -> Known:
    return Known(samples, identity={"kind": name})


def small_pack(
    dest: Path, count: int = 7, storage: Storage = "raw", shard_mb: float = 0.01, **settings: Any
) -> Summary:
    """A data set of a few kilobytes in several shards."""
    return pack(known(items(count)), dest, storage=storage, shard_mb=shard_mb, threads=1, **settings)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def copied(batches: Any) -> list[tuple[Any, Any]]:
    return [(images.copy(), labels.copy()) for images, labels in batches]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for (images, labels), (expected_images, expected_labels) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(labels, expected_labels)
        np.testing.assert_array_equal(images, expected_images)


def said_in_a_fork(say: Callable[[], str]) -> str:
    """The result of `say` in a forked child of this process, which ends with it and has 20 seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(20)
            os.write(writing, say().encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return said
