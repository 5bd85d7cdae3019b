"""Photographs as JPEG files in folders: crops, mirrored and scaled, of photographs that come with Python packages.

Imports NumPy and Pillow.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image

_NUM_CLASSES = 10
# In colours, from scikit-image and scikit-learn.
_PHOTOS = {
    "skimage": (
        "astronaut.png",
        "chelsea.png",
        "coffee.png",
        "motorcycle_left.png",
        "rocket.jpg",
        "ihc.png",
        "retina.jpg",
    ),
    "sklearn": ("china.jpg", "flower.jpg"),
}
_PLACES = {"skimage": "data", "sklearn": "datasets/images"}


def make(folder: Path, count: int, width: int, height: int, quality: int) -> None:
    """Write `count` different images of about that size; if it is not square, every second one of a folder is upright."""
    photos = _photographs()
    for i in range(count):
        random = np.random.Generator(np.random.PCG64(i))
        size = (height, width) if width != height and i % 4 == 3 else (width, height)
        path = folder / f"class{i % _NUM_CLASSES}" / f"{i:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        _piece(photos[i % len(photos)], size, random).save(path, quality=quality)


def _piece(photo: Image.Image, size: tuple[int, int], random: np.random.Generator) -> Image.Image:
    """A part with 50 to 100 percent of the photograph's sides, and at least the requested size if the photograph has it."""
    scale = min(photo.width / size[0], photo.height / size[1]) * random.uniform(0.5, 1.0)
    width, height = (max(1, round(side * scale)) for side in size)
    left, top = (int(random.integers(0, room + 1)) for room in (photo.width - width, photo.height - height))
    piece = photo.resize(size, Image.Resampling.LANCZOS, (left, top, left + width, top + height))
    return piece.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else piece


def _photographs() -> list[Image.Image]:
    found = []
    for package, names in _PHOTOS.items():
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        paths = [Path(spec.origin).parent / _PLACES[package] / name for name in names]
        found += [Image.open(path).convert("RGB") for path in paths if path.exists()]
    if len(found) < 4:
        raise SystemExit(f"error: found {len(found)} photographs\nhint: pip install scikit-image scikit-learn")
    return found
