"""Replacements for a GPU in tests: DALI with its operators on the CPU, and a pipeline of OpenCV and Pillow.

The first differs from a GPU's pipeline only in the name of the device; the second works without DALI, and follows a `View`
in the plainest way.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
from PIL import Image

from abreast import device_list
from abreast.errors import DeviceError
from abreast.records.decoding import gpu_choice, gpu_pipeline
from abreast.records.decoding.gpu_pipeline import DaliDevice, PipelineSettings, View
from abreast.records.decoding.images import Pixels, decode_jpeg

ON_CPU = DaliDevice("cpu", "cpu", None)
STAND_INS = [
    "opencv",
    pytest.param(
        "dali",
        marks=[
            pytest.mark.full,
            pytest.mark.skipif(not gpu_pipeline.is_installed(), reason='no DALI: pip install "abreast[dali]"'),
        ],
    ),
]


def let_there_be_a_gpu(patch: pytest.MonkeyPatch, stand_in: str = "opencv") -> None:
    """A pipeline whose work `stand_in` does."""
    patch.setattr(gpu_choice, "list_nvidia_devices", lambda: (device_list.Device("gpu:0", "gpu", 0, stand_in),))
    patch.setattr(gpu_choice, "is_installed", lambda: True)
    patch.setattr(gpu_choice, "gpu", lambda number: ON_CPU)
    if stand_in == "opencv":
        patch.setattr(gpu_pipeline, "Pipeline", OpenCvPipeline)
        patch.setattr(OpenCvPipeline, "runs", [])


class OpenCvPipeline:
    """Like `gpu_pipeline.Pipeline`. `runs` are the views of every run, in the order of their ends."""

    alive: ClassVar[weakref.WeakSet[OpenCvPipeline]] = weakref.WeakSet()
    runs: ClassVar[list[int]] = []

    def __init__(self, plan: PipelineSettings, device: DaliDevice) -> None:
        self.alive.add(self)
        self._plan = plan

    def run(self, views: Sequence[View]) -> Pixels:
        self.runs.append(len(views))
        return np.stack([self._shown(view) for view in views])

    @staticmethod
    def release_memory() -> None:
        pass

    def _shown(self, view: View) -> Any:
        assert view.halvings <= self._plan.max_halvings
        height, width, channels = self._plan.image_shape
        try:
            pixels = decode_jpeg(view.data, "GRAY" if channels == 1 else "RGB")
        except ValueError as error:
            raise DeviceError(f"OpenCV has failed: {error}") from None
        for number in range(view.halvings, 0, -1):
            pixels = _halved(pixels, view.height << (number - 1), view.width << (number - 1))
        assert pixels.shape[:2] == (view.height, view.width)
        made = _resized(view.window.of(pixels), view, height, width, self._plan.antialias)
        return made.reshape(height, width, channels)[:, :: -1 if view.flip else 1]


def _halved(pixels: Any, height: int, width: int) -> Any:
    below, beside = 2 * height - pixels.shape[0], 2 * width - pixels.shape[1]
    whole = np.pad(pixels, ((0, below), (0, beside), (0, 0)), "edge").astype(float)
    means = whole.reshape(height, 2, width, 2, -1).mean(axis=(1, 3))
    return np.floor(means + 0.5).astype(np.uint8)


def _resized(part: Any, view: View, height: int, width: int, antialias: bool) -> Any:
    left, top = view.window.left, view.window.top
    box = (left, top, left + view.window.width, top + view.window.height)
    if antialias:
        image = Image.fromarray(part.squeeze(2) if part.shape[2] == 1 else part)
        return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, box))
    rows = top + (np.arange(height) + 0.5) * view.window.height / height - 0.5
    columns = left + (np.arange(width) + 0.5) * view.window.width / width - 0.5
    where = np.broadcast_arrays(columns[None].astype(np.float32), rows[:, None].astype(np.float32))
    return cv2.remap(part, where[0].copy(), where[1].copy(), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
