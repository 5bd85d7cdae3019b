"""`view` returns the pixels that `evaluate` read of an image, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from abreast.errors import DataError
from abreast.records import CenterCrop, pack, view, view_settings
from abreast.records.loading.loader import Loader
from tests.harness.client import Workers
from tests.records.pieces import file_of, photo


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JPEGs and PNGs, wide, tall, small, gray, turned by EXIF, with transparency, and with restart markers."""
    folder = tmp_path_factory.mktemp("photos")
    turned = Image.Exif()
    turned[0x0112] = 6
    files = {
        "0.jpg": file_of(photo(300, 420, seed=1), "JPEG", quality=90),
        "1.jpg": file_of(photo(420, 300, seed=2), "JPEG", quality=90, exif=turned.tobytes()),
        "2.jpg": file_of(photo(40, 50, seed=3), "JPEG", progressive=True),
        "3.jpg": file_of(photo(200, 310, 1, seed=4), "JPEG"),
        "4.jpg": file_of(photo(260, 380, seed=5), "JPEG", restart_marker_blocks=2),
        "5.png": file_of(photo(300, 330, seed=6), "PNG"),
        "6.png": file_of(Image.fromarray(photo(90, 80, seed=7)).convert("RGBA"), "PNG"),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def shown(photos: Path, dest: Path, settings: dict[str, Any], size: Any, **reading: Any) -> tuple[Any, Any]:
    """The pixels of all images, in the order of their names, and the settings of `view`."""
    pack(photos, dest, **settings)
    with Loader(dest, 7, size=size, targets=None, **{"augment": False, **reading}) as held_out:
        (images,) = held_out
        return images.copy(), json.loads(json.dumps(view_settings(held_out)))


@pytest.mark.parametrize(
    ("packing", "size", "reading"),
    [
        ({}, 64, {}),
        ({"size": 120}, 64, {}),
        ({"size": 120, "quality": 60}, (48, 80), {}),
        ({"size": 60}, 96, {"antialias": False}),
        ({"storage": "png"}, 64, {"augment": CenterCrop(1.0)}),
        ({"storage": "raw", "size": 100}, 64, {}),
        ({"storage": "keep"}, 64, {"augment": CenterCrop(0.5)}),
    ],
)
def test_a_view_has_the_pixels_that_evaluation_sees(
    photos: Path, tmp_path: Path, packing: dict[str, Any], size: Any, reading: dict[str, Any]
) -> None:
    """Of a file, of its bytes, and of a list."""
    images, settings = shown(photos, tmp_path / "photos.pack", packing, size, **reading)
    files = sorted(photos.iterdir())
    for file, expected in zip(files, images, strict=True):
        np.testing.assert_array_equal(view(file, **settings), expected)
        np.testing.assert_array_equal(view(file.read_bytes(), **settings), expected)
    every = view([str(file) for file in files], **settings)
    np.testing.assert_array_equal(every, images)
    assert every.dtype == images.dtype == np.uint8


def test_gray_records_have_gray_views(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "gray").mkdir()
    (tmp_path / "gray" / "3.jpg").write_bytes((photos / "3.jpg").read_bytes())
    images, settings = shown(tmp_path / "gray", tmp_path / "gray.pack", {}, 32)
    assert settings["channels"] == 1 and images.shape == (1, 32, 32, 1)
    np.testing.assert_array_equal(view(photos / "3.jpg", **settings), images[0])


@pytest.mark.parametrize("storage", ["jpeg", "png", "raw", "keep"])
def test_an_image_with_colours_has_no_gray_view(photos: Path, storage: Any) -> None:
    """No pack of gray images could hold it, so evaluation never saw its gray pixels."""
    with pytest.raises(DataError, match=r"0\.jpg: it has colours, and records with channels=1") as caught:
        view(photos / "0.jpg", 32, channels=1, storage=storage)
    assert "convert('L')" in str(caught.value.hint)
    gray = Image.open(photos / "0.jpg").convert("L")
    assert view(file_of(gray, "PNG"), 32, channels=1, storage=storage).shape == (32, 32, 1)


def test_the_defaults_are_those_of_pack_and_records(photos: Path, tmp_path: Path) -> None:
    images, _ = shown(photos, tmp_path / "photos.pack", {}, 224)
    np.testing.assert_array_equal(view(photos / "0.jpg"), images[0])


@pytest.mark.parametrize(
    "other",
    [{"pack_size": 119}, {"quality": 94}, {"storage": "png"}, {"antialias": False}, {"fraction": 0.9}],
)
def test_a_setting_that_differs_is_noticed(photos: Path, tmp_path: Path, other: dict[str, Any]) -> None:
    """The negative control: each setting changes pixels."""
    images, settings = shown(photos, tmp_path / "photos.pack", {"size": 120, "quality": 95}, 60)
    settings = {**settings, **other, **({"quality": None} if "storage" in other else {})}
    assert not np.array_equal(view(photos / "0.jpg", **settings), images[0])


def test_settings_that_cannot_be_served_are_refused(photos: Path, tmp_path: Path) -> None:
    pack(photos, tmp_path / "large.pack")
    pack(tmp_path / "large.pack", tmp_path / "small.pack", size=80)
    with pytest.raises(DataError, match="random parts"):
        view_settings(Loader(tmp_path / "large.pack", 2, targets=None))
    smaller = tmp_path / "small.pack"
    with pytest.raises(DataError, match="several packs"):
        view_settings(Loader(tmp_path / "large.pack", 2, targets=None, augment=False, smaller=smaller))
    with pytest.raises(DataError, match="was made from another pack"):
        view_settings(Loader(tmp_path / "small.pack", 2, targets=None, augment=False))


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not an image")
    for name, what in (("missing.jpg", "no such file"), ("text.jpg", "not an image in one of")):
        with pytest.raises(DataError, match=f"{name}: .*{what}"):
            view(tmp_path / name)
    with pytest.raises(DataError, match="the image: cannot read the image"):
        view(b"not an image")
    for wrong in ({"channels": 4}, {"size": 0}, {"storage": "gif"}, {"fraction": 2}, {"pack_size": 0}):
        with pytest.raises(DataError):
            view(photo(20, 20), **wrong)


def test_a_model_predicts_the_same_of_views_as_of_records(workers: Workers, photos: Path, tmp_path: Path) -> None:
    """`evaluate` and `predict` of records against arrays of views, on each backend."""
    pack([(path, i % 3) for i, path in enumerate(sorted(photos.iterdir()))], tmp_path / "photos.pack", size=120)
    body: Any = SimpleNamespace(__module__="tests.records.serving_bodies", __name__="served")
    found = workers.abreast.run(body, folder=str(tmp_path / "photos.pack"), photos=str(photos))
    np.testing.assert_array_equal(*found["images"])
    np.testing.assert_array_equal(*found["predicted"])
    np.testing.assert_array_equal(*found["evaluated"])
