"""One image for a served model, with exactly the pixels that `evaluate` would have read from a pack.

The packer's own functions pack the image in memory, and the loader's functions read it. So no step can differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.crop import Box
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.resize import Painter
from abreast.records.loading.loader import Loader, checked_size
from abreast.records.loading.views import CenterCrop
from abreast.records.packing.packer import checked_recipe
from abreast.records.packing.prepare import Recipe, Storage, prepare
from abreast.records.packing.shard_writer import Packed
from abreast.records.reading.reader import Sample
from abreast.records.sources.source import Item

Image = str | PathLike[str] | bytes | Pixels

_CHANNELS = (1, 3)


class ViewSettings(TypedDict):
    """The arguments of `view` besides the image."""

    size: tuple[int, int]
    fraction: float
    antialias: bool
    channels: int
    storage: Storage
    pack_size: int | None
    quality: int | None


def view(
    image: Image | Sequence[Image],
    size: int | tuple[int, int] = 224,
    *,
    fraction: float = 0.875,
    antialias: bool = True,
    channels: int = 3,
    storage: Storage = "jpeg",
    pack_size: int | None = None,
    quality: int | None = None,
) -> Pixels:
    """The pixels that `evaluate` reads of an image, for `predict` or a served model.

    They equal those of `ImageRecords(..., augment=False)` on a pack of that image, to the last bit, on the CPU with the same
    versions of packages. `view_settings` returns the arguments for records that you have; the defaults are those of `pack` and of
    `ImageRecords`. Threads may call it.

    Args:
        image: a file's name or its bytes, or pixels as a `uint8` array, height by width by 1 or 3 channels; or a list of
            these, for a batch.
        size: the side of a square in pixels, or height and width.
        fraction: the share of the largest centred part's sides that is shown, as in `CenterCrop`.
        antialias: smooth where the image shrinks.
        channels: 3, or 1 for records whose images are all gray; then an image with colours is refused.
        storage: the pack's storage of images: "jpeg", "png", "raw" or "keep".
        pack_size: the `size` of the pack: the longest short side that it stores, in pixels.
        quality: the JPEG quality of the pack; 95 if it is None.

    Returns:
        `uint8`, height by width by channels; for a list, with the number of images before them.

    Raises:
        DataError: an image cannot be read or has colours where only gray is expected, or a setting is invalid.

    Example:
        >>> import numpy as np
        >>> from abreast.records import view
        >>> photo = np.zeros((480, 640, 3), np.uint8)
        >>> view(photo, size=224).shape, view([photo, photo], size=224).shape
        ((224, 224, 3), (2, 224, 224, 3))
    """
    place, crop, recipe = checked_size(size), CenterCrop(fraction), checked_recipe(storage, pack_size, quality)
    if channels not in _CHANNELS:
        raise DataError(f"channels={channels!r} is not allowed", "give 3, or 1 for gray images")
    painter = Painter(channels, antialias)
    if not isinstance(image, list | tuple):
        pixels: Pixels = np.empty((*place, channels), np.uint8)
        _paint(painter, crop, _stored(image, recipe, channels), pixels)
        return pixels
    batch: Pixels = np.empty((len(image), *place, channels), np.uint8)
    for each, row in zip(image, batch, strict=True):
        _paint(painter, crop, _stored(each, recipe, channels), row)
    return batch


def view_settings(records: Loader[Any]) -> ViewSettings:
    """The settings that make `view` return the same pixels as these records, as a dictionary for JSON.

    Save it beside the model, with `records.class_names`.

    Args:
        records: `ImageRecords` with `augment=False` or a `CenterCrop`, as they are given to `evaluate`.

    Returns:
        Arguments of `view`.

    Raises:
        DataError: the records show random parts or several data sets (`smaller`), or the pack was made from another pack.

    Example:
        >>> import numpy as np
        >>> import abreast
        >>> from abreast.records import pack, view, view_settings
        >>> photos = np.zeros((2, 80, 60, 3), np.uint8)
        >>> summary = pack((photos, [0, 1]), "photos.pack", size=48)
        >>> held_out = abreast.ImageRecords("photos.pack", batch_size=2, size=32, augment=False)
        >>> settings = view_settings(held_out)
        >>> settings["size"], settings["pack_size"]
        ((32, 32), 48)
        >>> bool((view(photos[0], **settings) == held_out[0][0][0]).all())
        True
    """
    assembly, written = records._assembly, records.records.manifest.settings
    look, crop = assembly.look, assembly.look.view
    if not isinstance(crop, CenterCrop):
        hint = "give the records that evaluate reads: ImageRecords(..., augment=False)"
        raise DataError("these records show random parts of images", hint)
    if len(assembly.batches.sizes.records) > 1:
        raise DataError("these records read from several packs (smaller=...)", "give records without `smaller`")
    if isinstance(source := written.get("source"), dict) and source.get("kind") == "records":
        hint = "pack the images themselves, or call view with the settings of both packs one after the other"
        raise DataError(f"{records.records.folder} was made from another pack, whose settings it does not name", hint)
    return {
        "size": look.size,
        "fraction": crop.fraction,
        "antialias": look.antialias,
        "channels": assembly.batches.image_shape[2],
        "storage": written["storage"],
        "pack_size": written["size"],
        "quality": written["quality"],
    }


def _stored(image: Any, recipe: Recipe, channels: int) -> Packed:
    """The image as a pack stores it. Raises `DataError`, which names the file.

    Records of one channel contain no image with colours: a pack that has one makes batches of three channels.
    """
    name = str(image) if isinstance(image, str | PathLike) else None
    if name is not None:
        image = Path(name)
    elif isinstance(image, bytearray | memoryview):
        image = bytes(image)
    try:
        packed = prepare(Item(name or "image", image, {}), recipe)[0]
        if packed.channels > channels:
            hint = "make it gray as the images of the pack were made, for example by Pillow: image.convert('L')"
            raise DataError("it has colours, and records with channels=1 show only gray images", hint)
        return packed
    except DataError as error:
        raise DataError(f"{name or 'the image'}: {error.message}", error.hint) from None


def _paint(painter: Painter, crop: CenterCrop, packed: Packed, place: Pixels) -> None:
    sides = np.array([packed.height]), np.array([packed.width])
    box = crop.views(*sides, (place.shape[0], place.shape[1]), np.empty((1, 0))).boxes[0]
    painter.finish(painter.decoder.prepare(_sample(packed), Box(*box.tolist()), False, place.shape), place)


def _sample(packed: Packed) -> Sample:
    restarts = np.empty(0, np.uint32) if packed.restarts is None else packed.restarts
    return Sample(
        number=0,
        key=packed.key,
        data=memoryview(packed.data),
        encoding=packed.encoding,
        height=packed.height,
        width=packed.width,
        channels=packed.channels,
        orientation=packed.orientation,
        plain=packed.plain,
        restarts=restarts,
        columns={},
    )
