"""Pixels of a batch are those of the whole image, cropped, resized and mirrored; crops follow their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from abreast.records import Box, CenterCrop, RandomCrop, Records, Sample, decode, pack
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.resize import Painter
from abreast.records.loading.draws import uniforms
from abreast.records.loading.loader import Loader
from abreast.records.loading.views import Views
from abreast.records.packing.prepare import Storage
from tests.records.pieces import file_of, image_of, photo


def painted(records: Records, number: int, box: Box, size: int, flip: bool = False, **settings: Any) -> Pixels:
    sample = records[number]
    place = np.zeros((size, size, settings.get("channels", 3)), np.uint8)
    paint(Painter(**{"channels": 3, "antialias": False, **settings}), sample, box, flip, place)
    return place


def paint(painter: Painter, sample: Sample, box: Box, flip: bool, place: Pixels) -> None:
    painter.finish(painter.decoder.prepare(sample, box, flip, place.shape), place)


def bilinear(pixels: Pixels, box: Box, size: int) -> Pixels:
    part = np.ascontiguousarray(pixels[box.top : box.bottom, box.left : box.right])
    made = cv2.resize(part, (size, size), interpolation=cv2.INTER_LINEAR)
    return made.reshape(size, size, -1).astype(np.uint8)


def by_pillow(pixels: Pixels, box: Box, size: int) -> Pixels:
    """Pillow's bilinear filter, which widens where it makes an image smaller."""
    image = Image.fromarray(pixels).resize(
        (size, size), Image.Resampling.BILINEAR, (box.left, box.top, box.right, box.bottom)
    )
    return np.asarray(image)


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each storage; the same picture in colours and in gray."""
    folder = tmp_path_factory.mktemp("pixels")
    pixels = [photo(90, 120), photo(90, 120, channels=1)]
    for storage in ("jpeg", "png", "raw"):
        pack(pixels, folder / storage, storage=storage)
    exif = image_of(pixels[0]).getexif()
    exif[0x0112] = 6
    kept: list[dict[str, Any]] = [{"progressive": True}, {"restart_marker_blocks": 2, "exif": exif}, {}]
    pack([file_of(pixels[0], "JPEG", quality=90, **each) for each in kept], folder / "kept", storage="keep")
    return folder


@pytest.mark.parametrize("storage", ["jpeg", "png", "raw", "kept"])
@pytest.mark.parametrize("box", [Box(11, 7, 60, 50), Box(0, 0, 20, 17), Box(81, 51, 9, 9)], ids=["1.5", "0.5", "0.2"])
def test_a_view_is_the_crop_of_the_whole_image_made_to_size(folder: Path, storage: Storage, box: Box) -> None:
    with Records(folder / storage) as records:
        for number, sample in enumerate(records):
            whole = decode(sample)
            expected = bilinear(whole, box, 40)
            expected = np.broadcast_to(expected, (40, 40, 3))
            np.testing.assert_array_equal(painted(records, number, box, 40), expected)
            np.testing.assert_array_equal(painted(records, number, box, 40, flip=True), expected[:, ::-1])


@pytest.mark.parametrize("storage", ["jpeg", "png", "raw"])
def test_gray_views_are_mirrored_as_colours_are(folder: Path, storage: Storage) -> None:
    box = Box(11, 7, 60, 50)
    with Records(folder / storage) as records:
        straight, mirrored = (painted(records, 1, box, 40, flip, channels=1) for flip in (False, True))
    np.testing.assert_array_equal(mirrored, straight[:, ::-1])


def test_memory_that_a_painter_uses_again_does_not_show(folder: Path) -> None:
    """Small views and large ones in turns, by one painter and by one for each."""
    kept = Painter(channels=3, antialias=True)
    with Records(folder / "jpeg") as records:
        for box, size in ((Box(30, 30, 20, 20), 15), (Box(0, 0, 120, 90), 70), (Box(5, 0, 115, 80), 64)):
            for flip in (False, True):
                place = np.zeros((size, size, 3), np.uint8)
                paint(kept, records[0], box, flip, place)
                np.testing.assert_array_equal(place, painted(records, 0, box, size, flip, antialias=True))


def test_gray_images_alone_have_one_channel(tmp_path: Path) -> None:
    pack([photo(30, 40, channels=1, seed=i) for i in range(3)], tmp_path / "out")
    with (
        Loader(tmp_path / "out", 3, size=30, augment=CenterCrop(1.0), targets=None) as batches,
        Records(tmp_path / "out") as records,
    ):
        assert batches[0].shape == (3, 30, 30, 1)
        np.testing.assert_array_equal(batches[0][1], decode(records[1])[:, 5:35])


def test_a_batch_shows_the_parts_of_its_views(folder: Path) -> None:
    """Through the whole loader: rows, boxes and mirrors belong together."""
    batches = Loader(folder / "jpeg", 2, size=64, targets=None, seed=1)
    _, views = batches._assembly._views(np.array([0, 1]), 1, 0, 0)
    batches = Loader(folder / "jpeg", 2, size=64, targets=None, seed=1, shuffle=False)
    (images,) = batches
    for i, sample in enumerate(batches.records):
        expected = np.broadcast_to(bilinear(decode(sample), Box(*views.boxes[i].tolist()), 64), (64, 64, 3))
        np.testing.assert_array_equal(images[i], expected[:, ::-1] if views.flips[i] else expected)


@pytest.mark.parametrize("storage", ["jpeg", "raw"])
@pytest.mark.parametrize(
    ("side", "plain", "fine"), [(420, 3.0, 0.45), (460, 1.3, 1.3), (900, 0.8, 0.7), (1900, 1.1, 1.1)]
)
def test_large_crops_are_made_smaller_without_holes(
    tmp_path: Path, storage: Storage, side: int, plain: float, fine: float
) -> None:
    """Mean difference from Pillow, whose filter sees every pixel, of a picture full of grain.

    Measured for JPEG and raw: 1.8, 2.5 and 0.3, 0.3 at 420 pixels; 1.0, 1.1 and 1.0, 1.1 at 460; then below 0.9.
    """
    pack([photo(side, side)], tmp_path / "out", storage=storage)
    box = Box(0, 0, side, side)
    with Records(tmp_path / "out") as records:
        expected = by_pillow(decode(records[0]), box, 224)
        assert difference(painted(records, 0, box, 224), expected) < plain
        assert difference(painted(records, 0, box, 224, antialias=True), expected) < fine
        # The negative control: four pixels of the whole image for each.
        assert difference(bilinear(decode(records[0]), box, 224), expected) > 1.7  # measured 1.8 to 3.9


def drawn(crop: RandomCrop, height: int, width: int, count: int = 4000) -> Views:
    sizes = np.full(count, height), np.full(count, width)
    return crop.views(*sizes, (224, 224), uniforms(0, 0, 0, count, crop.num_draws))


def test_random_crops_have_the_documented_areas_ratios_and_places() -> None:
    views = drawn(RandomCrop(), 480, 640)
    left, top, wide, tall = views.boxes.T
    area, ratio = wide * tall / (480 * 640), np.log(wide / tall)
    assert 0.079 < area.min() < 0.09 and 0.9 < area.max() <= 1
    assert abs(area[area < 0.5].mean() - 0.29) < 0.01  # uniform where every ratio fits
    assert np.log(3 / 4) - 0.01 < ratio.min() and ratio.max() < np.log(4 / 3) + 0.01
    assert (left >= 0).all() and (left + wide <= 640).all() and (top >= 0).all() and (top + tall <= 480).all()
    assert abs((left / np.maximum(640 - wide, 1)).mean() - 0.5) < 0.02
    assert abs((top / np.maximum(480 - tall, 1)).mean() - 0.5) < 0.03
    assert abs(views.flips.mean() - 0.5) < 0.03


def test_images_too_small_for_a_crop_give_the_largest_possible_one() -> None:
    crop = RandomCrop(scale=(0.9, 1.0))
    assert set(map(tuple, drawn(crop, 10, 1000).boxes[:, 2:].tolist())) == {(13, 10)}
    assert set(map(tuple, drawn(crop, 1000, 10).boxes[:, 2:].tolist())) == {(10, 13)}
    assert set(map(tuple, drawn(crop, 1, 1).boxes.tolist())) == {(0, 0, 1, 1)}


def test_mirroring_can_be_switched_off() -> None:
    assert not drawn(RandomCrop(flip=False), 100, 100).flips.any()


@pytest.mark.parametrize(
    ("height", "width", "size", "fraction", "box"),
    [
        (480, 480, (224, 224), 0.875, (30, 30, 420, 420)),
        (480, 640, (224, 224), 0.875, (110, 30, 420, 420)),
        (480, 640, (224, 224), 1.0, (80, 0, 480, 480)),
        (480, 640, (100, 300), 1.0, (0, 133, 640, 213)),
        (1, 1, (224, 224), 0.5, (0, 0, 1, 1)),
    ],
)
def test_the_centre_has_the_shape_of_the_batch(
    height: int, width: int, size: tuple[int, int], fraction: float, box: tuple[int, ...]
) -> None:
    views = CenterCrop(fraction).views(np.array([height]), np.array([width]), size, np.empty((0, 0)))
    assert tuple(views.boxes[0].tolist()) == box and not views.flips.any()


@pytest.mark.parametrize("storage", ["jpeg", "raw"])
def test_a_crop_that_is_decoded_smaller_is_not_moved(tmp_path: Path, storage: Storage) -> None:
    """A ramp by half a step of 255 for each pixel, of which nine become one; at the next whole one it was off by up to 3.5."""
    ramp = np.broadcast_to((np.arange(512) / 2).astype(np.uint8)[None, :, None], (512, 512, 3))
    pack([np.ascontiguousarray(ramp)], tmp_path / "out", storage=storage)
    with Records(tmp_path / "out") as records:
        boxes = [Box(left, left, 441, 433) for left in range(8)]
        found = [painted(records, 0, box, 48).astype(np.int64) for box in boxes]
        off = [float((found[i] - by_pillow(decode(records[0]), box, 48)).mean()) for i, box in enumerate(boxes)]
    assert max(off) - min(off) < 0.2 and max(off) < 0.8  # measured 0.1 and 0.54: libjpeg rounds a ramp up
