"""Painters that use a GPU: it paints rows of baseline JPEGs, and threads of this process paint the other rows.

Threads read and check samples and cut JPEGs to their crops, as for the CPU, so that the GPU gets only the bytes that it
needs. A batch goes through one of two pipelines, which take turns: one is fed while the other works.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import DeviceError
from abreast.records.decoding.batch_memory import BatchMemory
from abreast.records.decoding.crop import Box
from abreast.records.decoding.decode_smaller import Prepared, window_at
from abreast.records.decoding.decoder import is_plain_jpeg
from abreast.records.decoding.gpu_pipeline import DaliDevice, Pipelines, PipelineSettings, View
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.jpeg import JpegHeader
from abreast.records.decoding.painters import Batches
from abreast.records.decoding.resize import PainterHere
from abreast.records.format.columns import Array
from abreast.records.reading.reader import Numbers
from abreast.records.reading.sizes import Sizes
from abreast.records.threads import Pool

_PIPELINES = 2
_BASELINE = 0xC0
_ADOBE, _ADOBE_TRANSFORM = b"\xff\xee\x00\x0eAdobe", 15  # Adobe's segment, and the byte in it that names the colours


class Row(NamedTuple):
    """A row that the GPU paints: the row's number in the batch, and its view for the CPU and for the GPU."""

    place: int
    prepared: Prepared
    view: View


class Gpu:
    """A GPU that decodes for a loader. Its pipelines are kept from one iteration to the next."""

    def __init__(self, batches: Batches, num_threads: int, device: DaliDevice) -> None:
        plan = PipelineSettings(
            image_shape=batches.image_shape,
            antialias=batches.antialias,
            max_halvings=_max_halvings(batches),
            max_rows=batches.max_rows,
            num_threads=-(-num_threads // _PIPELINES),
        )
        self._cutter = Cutter(batches.sizes, plan.image_shape[2], plan.antialias)
        self._pipelines = Pipelines(plan, device)
        self._buffers = batches.buffers
        self._num_threads = num_threads

    def painters(self) -> GpuPainters:
        """Painters for one iteration."""
        return GpuPainters(self._cutter, self._pipelines, self._buffers, self._num_threads)

    def close(self) -> None:
        """Free the GPU's memory."""
        self._pipelines.close()


def _max_halvings(batches: Batches) -> int:
    """The number of halvings from the largest view to the size of its place in a batch."""
    times_larger = (batches.sizes.sides // np.array(batches.image_shape[:2])[:, None]).min(axis=0)
    return int(times_larger.max(initial=1)).bit_length() - 1


class GpuPainters:
    """Painters of one iteration. The caller asks for the rows of a batch part by part, in order."""

    def __init__(self, cutter: Cutter, pipelines: Pipelines, buffers: BatchMemory, num_threads: int) -> None:
        self.array = buffers.array
        self._cutter = cutter
        self._pipelines = pipelines
        self._threads = Pool(num_threads, "abreast-decode", "num_threads")
        self._turns = Pool(_PIPELINES, "abreast-gpu", "num_threads")
        self._batch = _Batch()

    def paint(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> _Batch:
        """Begin to cut these rows. The last rows of a batch start the GPU as soon as all of its rows are cut."""
        batch, end = self._batch, first + len(numbers)
        batch.parts.append(self._threads.submit(self._cutter.cut, numbers, boxes, flips, images[first:end], first))
        if end == len(images):
            self._batch = _Batch()
            batch.painted = self._turns.submit(self._paint, batch.parts, images)
        return batch

    def aside(self, function: Callable[..., None], *arguments: Any) -> None:
        self._threads.submit(function, *arguments)

    def finish(self) -> None:
        self._threads.shutdown()
        self._turns.shutdown()

    def leave(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._turns.shutdown(cancel_futures=True)

    def _paint(self, parts: list[Future[list[Row]]], images: Pixels) -> None:
        rows = [row for part in parts for row in part.result()]
        if not rows:
            return
        try:
            self._pipelines.run([row.view for row in rows], np.array([row.place for row in rows]), images)
        except DeviceError:
            self._cutter.check(rows, images)
            raise


class _Batch:
    """A batch at work. The result of each part waits for the whole batch."""

    def __init__(self) -> None:
        self.parts: list[Future[list[Row]]] = []
        self.painted: Future[None]

    def result(self) -> None:
        self.painted.result()


class Cutter:
    """Cuts JPEGs for the GPU, and paints the rows of other images. Any thread may call it."""

    def __init__(self, sizes: Sizes, channels: int, antialias: bool) -> None:
        self._sizes = sizes
        self._here = PainterHere(channels, antialias)

    def cut(self, numbers: Numbers, boxes: Array, flips: Array, images: Pixels, first: int) -> list[Row]:
        """Rows for the GPU; the other rows are painted here. `images` begin at row `first` of the batch."""
        found = []
        painter = self._here.painter
        for i, (number, box, flip) in enumerate(zip(numbers.tolist(), boxes.tolist(), flips.tolist(), strict=True)):
            sample = self._sizes.sample(number)
            prepared = painter.decoder.prepare(sample, Box(*box), flip, images.shape[1:])
            if is_plain_jpeg(sample) and is_for_gpu(painter.decoder.headers.read(sample.data)):
                found.append(Row(first + i, prepared, view_of(prepared, Box(*box), images.shape[1:])))
            else:
                painter.finish(prepared, images[i])
        return found

    def check(self, rows: list[Row], images: Pixels) -> None:
        """Decode these rows on the CPU. Raises `DataError` for the first damaged image."""
        place = np.empty(images.shape[1:], np.uint8)
        for row in rows:
            self._here.painter.finish(row.prepared, place)


def is_for_gpu(header: JpegHeader) -> bool:
    """True if a GPU decodes such a JPEG to the same colours as libjpeg: baseline, in gray or YCbCr.

    DALI decodes progressive JPEGs on the CPU, without a crop. A JPEG that is stored as RGB has Adobe's segment without a
    transform, or R, G and B as the names of its components.
    """
    adobe = header.tables.find(_ADOBE)
    stored_as_rgb = header.num_components == 3 and (
        (adobe >= 0 and header.tables[adobe + _ADOBE_TRANSFORM] == 0) or header.frame[10::3] == b"RGB"
    )
    return header.sequential and header.frame[1] == _BASELINE and header.num_components in (1, 3) and not stored_as_rgb


def view_of(prepared: Prepared, box: Box, size: tuple[int, ...]) -> View:
    """The GPU's instructions for a row that the CPU would paint from `prepared`.

    The CPU decodes at 1 / 2 ** n, then takes means of `times` by `times` pixels if the image is still large. The GPU
    halves n times, and `floor(log2(times))` times more.
    """
    assert prepared.data is not None
    window = prepared.window
    halvings = round(box.height / window.height).bit_length() - 1
    times = int(min(window.height / size[0], window.width / size[1]))
    height, width = prepared.height, prepared.width
    if times >= 2:
        more = times.bit_length() - 1
        left, top = window.columns.start + window.left, window.rows.start + window.top
        window = window_at(*(length / 2**more for length in (left, top, window.width, window.height)))
        halvings, height, width = halvings + more, -(-height // 2**more), -(-width // 2**more)
    return View(prepared.data, halvings, height, width, window, prepared.flip)
