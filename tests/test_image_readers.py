"""The readers that `benchmarks/images.py` compares do the same work, and the check of that notices when one does not."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.harness.client import ROOT

_QUICK = (
    "libjpeg-turbo, full decode alone",
    "abreast",
    "abreast, raw at 256",
    "abreast, centre",
    "grain and simplejpeg",
)


@pytest.fixture
def image_check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("image_check")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "readers", [_QUICK, pytest.param((), id="every reader", marks=[pytest.mark.full, pytest.mark.timeout(900)])]
)
def test_every_reader_gives_right_batches(image_check: Any, readers: tuple[str, ...]) -> None:
    command = [sys.executable, "benchmarks/image_check.py", *(["--readers", ";".join(readers)] if readers else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    assert list(found) == list(readers or image_check.image_readers.READERS)
    assert found["abreast"] == "right"
    assert {name: each for name, each in found.items() if each != "right" and "left out, without" not in each} == {}


def test_readers_that_need_a_gpu_are_left_out_without_one(image_check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = image_check.image_readers.READERS
    monkeypatch.setattr("abreast.device_list.list_nvidia_devices", lambda: ())
    assert readers["abreast, GPU"].missing()[-1] == "a GPU" and readers["abreast"].missing() == []
    monkeypatch.setattr("abreast.device_list.list_nvidia_devices", lambda: ("gpu:0",))
    assert "a GPU" not in readers["abreast, GPU"].missing()
    hidden = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    assert readers["abreast, GPU"].variables(hidden) == {"OMP_NUM_THREADS": "1"}
    assert readers["abreast"].variables(hidden) == hidden


def drawn(image_check: Any, boxes: Any, mirrored: Any) -> list[Any]:
    """Views of the check's picture, as Pillow makes them."""
    line = np.linspace(0, 255, image_check.SIDE)
    pixels = np.stack(np.broadcast_arrays(line[None, :], line[:, None], float(image_check.BLUE)), axis=2)
    picture = Image.fromarray(np.rint(pixels).astype(np.uint8))
    made = []
    for (left, top, width, height), mirror in zip(boxes, mirrored, strict=True):
        image = picture.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        made.append(np.asarray(image)[:, ::-1] if mirror else np.asarray(image))
    return made


def test_the_check_sees_which_part_a_view_is(image_check: Any) -> None:
    boxes = [(10, 20, 300, 400), (0, 0, 480, 480), (200, 100, 150, 160)]
    for box, view in zip(boxes, map(image_check.seen, drawn(image_check, boxes, [True, False, True])), strict=True):
        found = np.array([view.left, view.top, view.width, view.height]) * image_check.SIDE
        np.testing.assert_allclose(found, box, atol=2.5)
        assert view.mirrored == (box != boxes[1]) and view.bent < 2


def test_the_check_notices_wrong_batches(image_check: Any) -> None:
    random = np.random.default_rng(0)
    widths = random.integers(170, 480, 200)
    heights = np.minimum((widths * random.uniform(0.76, 1.3, 200)).astype(int), 480)
    corners = [(random.integers(0, 481 - w), random.integers(0, 481 - h)) for w, h in zip(widths, heights, strict=True)]
    boxes = [(*corner, w, h) for corner, w, h in zip(corners, widths, heights, strict=True)]
    images = drawn(image_check, boxes, random.random(200) < 0.5)
    views = [image_check.seen(image) for image in images]
    check = image_check._CHECKS["random part"]
    assert check(views) == []
    assert check([replace(view, mirrored=False) for view in views]) == ["not every second one is mirrored"]
    assert any("areas are" in fault for fault in check([replace(view, width=0.2) for view in views]))
    assert any("ratios are" in fault for fault in check([replace(view, height=0.9) for view in views]))
    assert "places are all alike" in check([replace(view, left=0.1) for view in views])
    assert max(image_check.seen(image[:, :, ::-1]).bent for image in images[:20]) > 50  # blue, green, red
    assert image_check._CHECKS["centre"](views) != [] and image_check._CHECKS["whole"](views) != []
