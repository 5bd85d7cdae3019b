"""JPEGs decoded by NVIDIA DALI with `decoder="gpu"` and `"auto"`: the CPU's pixels except for rounding, and a fit with them.

With simulated devices, the decoder of the tests replaces the GPU: DALI on the CPU, or OpenCV if DALI is not installed.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.place import Found, Missing, Place

_NUM_IMAGES, _SIDE, _SIZE, _ROWS = 256, 480, 224, 32
_MOST_MEAN = 2.0  # of 255, for the worst image: decoders round differently, and libjpeg halves differently
_RATE_SECONDS = 2.0


def run(place: Place) -> Found:
    from abreast.records import pack

    with tempfile.TemporaryDirectory() as folder, _decoder(place) as by:
        data = Path(folder) / "pack"
        pack([(_photo(i), i % 10) for i in range(_NUM_IMAGES)], data)
        differences = {view: _difference(data, view == "whole") for view in ("whole", "crops")}
        rates = {decoder: _images_per_second(data, decoder) for decoder in ("cpu", "gpu")}
        chosen, said = _auto(data)
        trained = _fit(data, place) if place.backend else None
    facts: dict[str, Any] = {
        "by": by,
        "differences": differences,
        "images_per_second": rates,
        "auto": chosen,
        "said": said,
    }
    facts |= {"loss": trained}
    figure = f"{rates['gpu']:,.0f} images/s, CPU {rates['cpu']:,.0f}, auto takes {chosen}"
    absent = [f"a GPU: {by} decoded"] if place.simulated else []
    absent += [] if place.backend else ["a framework: no fit was fed"]
    return Found(figure, facts, tuple(problems(facts)), tuple(absent))


def problems(facts: dict[str, Any]) -> list[str]:
    found = [
        f"{view}: pixels differ by {mean:.1f} in the mean of the worst image, {largest} at most"
        for view, (mean, largest) in facts["differences"].items()
        if not mean < _MOST_MEAN
    ]
    if facts["auto"] not in ("cpu", "gpu") or "images/s on the GPU" not in facts["said"]:
        found.append(f'decoder="auto" measured nothing: {facts["said"].strip()[:300]}')
    if facts["loss"] is not None and not 0 < facts["loss"] < float("inf"):
        found.append(f"a fit ended with a loss of {facts['loss']}")
    return found


@contextlib.contextmanager
def _decoder(place: Place) -> Iterator[str]:
    """The decoder in use while this context is open."""
    from abreast.records.decoding import gpu_pipeline

    there = gpu_pipeline.is_installed()
    if not place.simulated:
        if not there:
            raise Missing("NVIDIA DALI: not installed")
        yield "DALI"
        return
    try:
        import pytest

        from tests.records.dali import let_there_be_a_gpu
    except ModuleNotFoundError as error:
        raise Missing(f"{error.name}: not installed") from None
    by = "dali" if there else "opencv"
    with pytest.MonkeyPatch.context() as patch:
        let_there_be_a_gpu(patch, by)
        yield f"{by} on the CPU"


def _photo(seed: int) -> Any:
    """Smooth colours with some grain, as photographs have."""
    import numpy as np
    from PIL import Image

    draws = np.random.default_rng(seed)
    coarse = Image.fromarray(draws.integers(0, 256, (6, 6, 3), np.uint8))
    smooth = np.asarray(coarse.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC), np.int16)
    return np.clip(smooth + draws.integers(-12, 13, smooth.shape, np.int16), 0, 255).astype(np.uint8)


def _loader(data: Path, decoder: str, **settings: Any) -> Any:
    from abreast.records.loading.loader import Loader

    return Loader(data, _ROWS, **{"size": _SIZE, "seed": 1, "decoder": decoder, **settings})


def _difference(data: Path, whole: bool) -> tuple[float, int]:
    """The mean difference of the image that differs most, and the largest difference of any pixel, between both decoders."""
    import numpy as np

    settings: dict[str, Any] = {"augment": not whole, **({"size": _SIDE} if whole else {})}
    worst, largest = 0.0, 0
    with _loader(data, "cpu", **settings) as cpu, _loader(data, "gpu", **settings) as gpu:
        for (images, labels), (others, other_labels) in zip(cpu, gpu, strict=True):
            assert np.array_equal(labels, other_labels), "the batches have other samples"
            off = np.abs(images.astype(int) - others.astype(int))
            worst, largest = max(worst, float(off.mean(axis=(1, 2, 3)).max())), max(largest, int(off.max()))
    return worst, largest


def _images_per_second(data: Path, decoder: str) -> float:
    with _loader(data, decoder) as batches:
        _epoch(batches)  # makes the pipelines
        images, began = 0, time.perf_counter()
        while time.perf_counter() - began < _RATE_SECONDS:
            images += _epoch(batches)
        return images / (time.perf_counter() - began)


def _epoch(batches: Any) -> int:
    return sum(len(images) for images, _ in batches)


def _auto(data: Path) -> tuple[str, str]:
    """The decoder that `"auto"` chooses, and the line that it prints."""
    with contextlib.redirect_stderr(io.StringIO()) as said, _loader(data, "auto") as batches:
        _epoch(batches)
        return str(batches.state()["decoder"]), said.getvalue()


def _fit(data: Path, place: Place) -> float:
    """The loss of a fit whose batches the GPU decodes, while it trains."""
    import keras

    import abreast

    place.prepare()
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.Conv2D(8, 5, 4), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([keras.Input((_SIZE, _SIZE, 3), dtype="uint8"), *layers, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    abreast.parallelize(model, place.devices)
    records = abreast.ImageRecords(data, _ROWS, size=_SIZE, decoder="gpu")
    return float(model.fit(records, epochs=2, verbose=0).history["loss"][-1])
