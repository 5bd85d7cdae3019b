"""NVIDIA DALI's pipelines: JPEGs in, views of them made to size and mirrored out, all of it on a GPU.

It does what `pixels.Painter` does. Halves, quarters and eighths, which libjpeg decodes by itself, are made of the whole
decode: a bilinear resize to a half is the mean of two by two. Which images go this way is in `gpu_painters.py`. Imports
`pixels` and `errors`; DALI when a pipeline is made.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import DataError, DeviceError
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.jpeg import Bytes
from abreast.records.decoding.resize import Window
from abreast.records.format.columns import Array

_HINT = 'decoder="cpu" does without'
_FORK_HINT = 'open the data set in each process, or fork before the first batch; decoder="cpu" goes through a fork'


class Device(NamedTuple):
    """Where DALI works, in its own words. The CPU, which has no `number`, stands in for a GPU in tests."""

    decoder: str
    operators: str
    number: int | None

    def __str__(self) -> str:
        return f"{self.operators}:{self.number or 0}"


def gpu(index: int) -> Device:
    return Device("mixed", "gpu", index)


class View(NamedTuple):
    """A row to be: `data` halved so many times, then of `height` by `width` pixels, of which `window` is seen."""

    data: Bytes
    halvings: int
    height: int
    width: int
    window: Window
    flip: bool


class Plan(NamedTuple):
    """What all batches of a loader have in common. `max_halvings` are those of its largest image."""

    image_shape: tuple[int, int, int]
    antialias: bool
    max_halvings: int
    max_rows: int
    num_threads: int  # of the CPU, for what the GPU leaves to it


def is_installed() -> bool:
    """Whether DALI is. It is not imported, which takes half a second."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


def not_installed() -> DataError:
    return DataError("decoding on a GPU needs NVIDIA DALI, which is not installed", 'pip install "abreast[dali]"')


class Pipeline:
    """One of DALI's, for one thread at a time. Raises `DeviceError` where it cannot be made."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._max_halvings = plan.max_halvings
        self._device = device
        modules = _imported()
        try:
            self._dali = _built(modules, plan, device)
        except Exception as error:
            raise _failed(f"cannot use {device}", error) from error

    def run(self, views: Sequence[View]) -> Pixels:
        """The views' pixels, until the next run. Raises `DeviceError`; then this pipeline is of no more use."""
        try:
            (found,) = self._dali.run(**_inputs(views, self._max_halvings))
            pixels: Pixels = np.asarray(found.as_tensor())
        except Exception as error:
            raise _failed(f"has failed on {self._device}", error) from error
        return pixels

    @staticmethod
    def release_memory() -> None:
        """Give back what pipelines that are gone had, and DALI keeps for others."""
        importlib.import_module("nvidia.dali.backend").ReleaseUnusedMemory()


class Pipelines:
    """Those of a loader, kept from batch to batch: it takes seconds to make one. Threads may share it."""

    def __init__(self, plan: Plan, device: Device) -> None:
        self._plan = plan
        self._device = device
        self._idle: list[Pipeline] = []
        self._lock = threading.Lock()
        self._closed = False
        self._process_id: int | None = None  # of who made the first one
        weakref.finalize(self, _free, self._idle).atexit = False  # then DALI ends by itself

    def run(self, views: Sequence[View], rows: Array, images: Pixels) -> None:
        """Put the views' pixels into these rows of `images`. Raises `DeviceError`."""
        taken = [self._taken()]
        _put(taken[0].run(views), rows, images)
        with self._lock:
            if self._closed:
                _free(taken)
            else:
                self._idle += taken

    def close(self) -> None:
        """Give the GPU's memory back; what of it is at work, when that is done."""
        with self._lock:
            self._closed = True
            _free(self._idle)

    def _taken(self) -> Pipeline:
        process_id = os.getpid()
        with self._lock:
            if self._process_id not in (None, process_id):
                raise DeviceError(
                    "this process was forked from one whose GPU decodes: it cannot use the GPU", _FORK_HINT
                )
            self._process_id = process_id
            if self._idle:
                return self._idle.pop()
        return Pipeline(self._plan, self._device)


def _put(pixels: Pixels, rows: Array, images: Pixels) -> None:
    if len(rows) == len(images):
        np.copyto(images, pixels)
    else:
        images[rows] = pixels


def _free(pipelines: list[Pipeline]) -> None:
    """Free pipelines that nobody has but this list."""
    if pipelines:
        pipelines.clear()
        Pipeline.release_memory()


def _built(modules: tuple[Any, Any, Any], plan: Plan, device: Device) -> Any:
    dali, fn, types = modules

    def given(name: str, dtype: Any) -> Any:
        return fn.external_source(name=name, device="cpu", dtype=dtype, ndim=1)

    def resized(pixels: Any, size: Any, begin: Any, end: Any, antialias: bool) -> Any:
        settings = {"roi_start": begin, "roi_end": end, "interp_type": types.INTERP_LINEAR, "antialias": antialias}
        return fn.resize(pixels, device=device.operators, size=size, **settings)

    pipeline = dali.Pipeline(
        batch_size=plan.max_rows,
        num_threads=plan.num_threads,
        device_id=device.number,
        prefetch_queue_depth=1,  # with more, `run` takes no inputs
        exec_dynamic=True,  # which `.cpu()` needs
    )
    height, width, channels = plan.image_shape
    with pipeline:
        pixels = fn.decoders.image(
            given("data", types.UINT8),
            device=device.decoder,
            output_type=types.GRAY if channels == 1 else types.RGB,
            jpeg_fancy_upsampling=True,  # as libjpeg does
        )
        for number in range(plan.max_halvings):
            size, end = (given(f"{name}{number}", types.FLOAT) for name in ("size", "whole"))
            pixels = resized(pixels, size, [0.0, 0.0], end, antialias=False)
        # The window alone: a resize that makes larger would look at pixels beside it.
        corner, shape = (given(name, types.INT32) for name in ("corner", "shape"))
        pixels = fn.slice(pixels, device=device.operators, start=corner, shape=shape, axes=[0, 1])
        begin, end = (given(name, types.FLOAT) for name in ("begin", "end"))
        pixels = resized(pixels, (height, width), begin, end, plan.antialias)
        pipeline.set_outputs(pixels.cpu())
    pipeline.build()
    return pipeline


def _imported() -> tuple[Any, Any, Any]:
    try:
        dali, fn, types = map(importlib.import_module, ("nvidia.dali", "nvidia.dali.fn", "nvidia.dali.types"))
    except ImportError as error:
        if error.name in ("nvidia", "nvidia.dali"):
            raise not_installed() from None
        raise DeviceError(f"NVIDIA DALI cannot be imported: {error}", 'pip install "abreast[dali]"') from error
    return dali, fn, types


def _inputs(views: Sequence[View], max_halvings: int) -> dict[str, Any]:
    """A batch of each input of the pipeline."""
    sizes = np.array([(view.height, view.width) for view in views])
    halvings = np.array([(view.halvings,) for view in views])
    windows = [view.window for view in views]
    rows, columns = [each.rows for each in windows], [each.columns for each in windows]
    corner = np.array([(row.start, column.start) for row, column in zip(rows, columns, strict=True)], np.int32)
    stop = np.array([(row.stop, column.stop) for row, column in zip(rows, columns, strict=True)], np.int32)
    begin = np.array([(each.top, each.left) for each in windows], np.float32)
    end = begin + np.array([(each.height, each.width) for each in windows], np.float32)
    flips = np.array([view.flip for view in views])
    begin[flips, 1], end[flips, 1] = end[flips, 1], begin[flips, 1]  # backwards is mirrored
    inputs = {
        "data": [np.frombuffer(view.data, np.uint8) for view in views],
        "corner": corner,
        "shape": stop - corner,
        "begin": begin,
        "end": end,
    }
    for number in range(max_halvings):
        left = np.maximum(halvings - number, 0)  # at this one; with none left it changes nothing
        inputs[f"whole{number}"] = (sizes << left).astype(np.float32)
        inputs[f"size{number}"] = (sizes << np.maximum(left - 1, 0)).astype(np.float32)
    return inputs


def _failed(what: str, error: Exception) -> DeviceError:
    """With DALI's own words, which stand between places in a program and what comes of it."""
    words = str(error).rpartition("encountered:")[2].partition("Current pipeline object")[0]
    return DeviceError(f"NVIDIA DALI {what}: {' '.join(words.split())[:300] or type(error).__name__}", _HINT)
