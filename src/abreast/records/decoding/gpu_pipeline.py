"""Pipelines of NVIDIA DALI: JPEGs go in, and resized and mirrored views come out. All of the work is on a GPU.

A pipeline does the work of `resize.Painter`. There libjpeg itself decodes to a half, a quarter or an eighth; here the full
decode is halved, since a bilinear resize to a half is the mean of two by two pixels. `gpu_painters.py` selects the images.
DALI is imported when a pipeline is made.
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
from abreast.installing import install_command
from abreast.records.decoding.decode_smaller import ViewWindow
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.jpeg import Bytes
from abreast.records.format.columns import Array

_HINT = 'decoder="cpu" needs no GPU'
_FORK_HINT = 'open the data set in each process, or fork before the first batch; decoder="cpu" goes through a fork'


class DaliDevice(NamedTuple):
    """A device in DALI's terms. In tests the CPU, which has no `number`, stands in for a GPU."""

    decoder: str
    operators: str
    number: int | None

    def __str__(self) -> str:
        return f"{self.operators}:{self.number or 0}"


def gpu(index: int) -> DaliDevice:
    return DaliDevice("mixed", "gpu", index)


class View(NamedTuple):
    """One row of a batch: decode `data` and halve it `halvings` times, to `height` by `width`; then show its `window`."""

    data: Bytes
    halvings: int
    height: int
    width: int
    window: ViewWindow
    flip: bool


class PipelineSettings(NamedTuple):
    """The settings that all batches of a loader share. `max_halvings`: the halvings of its largest image."""

    image_shape: tuple[int, int, int]
    antialias: bool
    max_halvings: int
    max_rows: int
    num_threads: int  # CPU threads for the parts of DALI's work that are not on the GPU


def is_installed() -> bool:
    """True if DALI is installed. It is not imported, as that takes half a second."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


def not_installed() -> DataError:
    return DataError("decoding on a GPU needs NVIDIA DALI, which is not installed", install_command("dali"))


class Pipeline:
    """One pipeline of DALI, for one thread at a time. Raises `DeviceError` if it cannot be made."""

    def __init__(self, plan: PipelineSettings, device: DaliDevice) -> None:
        self._max_halvings = plan.max_halvings
        self._device = device
        modules = _imported()
        try:
            self._dali = _built(modules, plan, device)
        except Exception as error:
            raise _failed(f"cannot use {device}", error) from error

    def run(self, views: Sequence[View]) -> Pixels:
        """The views' pixels, valid until the next run. After a `DeviceError` the pipeline cannot be used any more."""
        try:
            (found,) = self._dali.run(**_inputs(views, self._max_halvings))
            pixels: Pixels = np.asarray(found.as_tensor())
        except Exception as error:
            raise _failed(f"has failed on {self._device}", error) from error
        return pixels

    @staticmethod
    def release_memory() -> None:
        """Free the memory of deleted pipelines, which DALI keeps for later ones."""
        importlib.import_module("nvidia.dali.backend").ReleaseUnusedMemory()


class Pipelines:
    """The pipelines of a loader, kept from batch to batch, since making one takes seconds. Threads may share it."""

    def __init__(self, plan: PipelineSettings, device: DaliDevice) -> None:
        self._plan = plan
        self._device = device
        self._idle: list[Pipeline] = []
        self._lock = threading.Lock()
        self._closed = False
        self._process_id: int | None = None  # of the process that made the first pipeline
        weakref.finalize(self, _free, self._idle).atexit = False  # at exit DALI frees its memory itself

    def run(self, views: Sequence[View], rows: Array, images: Pixels) -> None:
        """Write the views' pixels into these rows of `images`. Raises `DeviceError`."""
        taken = [self._taken()]
        _put(taken[0].run(views), rows, images)
        with self._lock:
            if self._closed:
                _free(taken)
            else:
                self._idle += taken

    def close(self) -> None:
        """Free the GPU's memory. A pipeline at work frees its memory when it is done."""
        with self._lock:
            self._closed = True
            _free(self._idle)

    def _taken(self) -> Pipeline:
        process_id = os.getpid()
        with self._lock:
            if self._process_id not in (None, process_id):
                raise DeviceError(
                    "this process cannot use the GPU: it was forked from a process that decodes on it", _FORK_HINT
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
    """Free pipelines that only this list refers to."""
    if pipelines:
        kind = type(pipelines[0])
        pipelines.clear()
        kind.release_memory()


def _built(modules: tuple[Any, Any, Any], plan: PipelineSettings, device: DaliDevice) -> Any:
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
        prefetch_queue_depth=1,  # `run` accepts no inputs with a deeper queue
        exec_dynamic=True,  # `.cpu()` needs it
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
        # Only the window is resized: an enlarging resize would use pixels beside it.
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
        raise DeviceError(f"NVIDIA DALI cannot be imported: {error}", install_command("dali")) from error
    return dali, fn, types


def _inputs(views: Sequence[View], max_halvings: int) -> dict[str, Any]:
    """The values of each input of the pipeline for one batch."""
    sizes = np.array([(view.height, view.width) for view in views])
    halvings = np.array([(view.halvings,) for view in views])
    windows = [view.window for view in views]
    rows, columns = [each.rows for each in windows], [each.columns for each in windows]
    corner = np.array([(row.start, column.start) for row, column in zip(rows, columns, strict=True)], np.int32)
    stop = np.array([(row.stop, column.stop) for row, column in zip(rows, columns, strict=True)], np.int32)
    begin = np.array([(each.top, each.left) for each in windows], np.float32)
    end = begin + np.array([(each.height, each.width) for each in windows], np.float32)
    flips = np.array([view.flip for view in views])
    begin[flips, 1], end[flips, 1] = end[flips, 1], begin[flips, 1]  # a reversed region is mirrored
    inputs = {
        "data": [np.frombuffer(view.data, np.uint8) for view in views],
        "corner": corner,
        "shape": stop - corner,
        "begin": begin,
        "end": end,
    }
    for number in range(max_halvings):
        left = np.maximum(halvings - number, 0)  # remaining halvings; with 0, the step changes nothing
        inputs[f"whole{number}"] = (sizes << left).astype(np.float32)
        inputs[f"size{number}"] = (sizes << np.maximum(left - 1, 0)).astype(np.float32)
    return inputs


def _failed(what: str, error: Exception) -> DeviceError:
    """The error with DALI's own message, without the source locations before it and the further errors after it."""
    words = str(error).rpartition("encountered:")[2].partition("Current pipeline object")[0]
    return DeviceError(f"NVIDIA DALI {what}: {' '.join(words.split())[:300] or type(error).__name__}", _HINT)
