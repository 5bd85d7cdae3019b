"""Differences of the pixels of a batch from Pillow's resize of the whole image, for abreast and for tf.data.

    python benchmarks/image_quality.py [--quick] [--images 300] [--sets "480x480 q95"] [--ways "abreast;tf.data"]

Each way shows the same part of each image, once. The reference is Pillow's decode of the whole file and its
bilinear `resize` of that part, whose filter uses every pixel. A sample is the mean difference of one image, in steps of 255.
"A GPU's way" is NVIDIA DALI on the CPU with the pipeline of a GPU, if DALI is installed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import lines
import numpy as np
from photo_sets import SETS

_SIZES = (224, 96)  # for the second, most parts are decoded at a smaller scale
_SEED = 1
_BATCH = 50
_FAR = 8  # steps of 255: a difference that may be visible

Images = Any
Ways = Mapping[str, Callable[[], Images]]


def main() -> None:
    arguments = _arguments()
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory(prefix="abreast-quality-") as folder:
        for name in arguments.sets:
            place = Path(folder) / name.replace(" ", "-")
            _prepare(place, arguments.images, *SETS[name])
            for size in _SIZES:
                for view, reference, ways in _compared(place, size):
                    made = {way: make() for way, make in ways.items() if way in (arguments.ways or ways)}
                    _report({"images": name, "size": size, "view": view}, reference, made, arguments.quick)


def _prepare(place: Path, count: int, width: int, height: int, quality: int) -> None:
    import image_sets
    import photos

    from abreast.records import pack

    photos.make(place / "jpeg", count, width, height, quality)
    pack(place / "jpeg", place / "jpeg.pack", quality=quality)
    pack(place / "jpeg", place / "smaller.pack", quality=quality, size=image_sets.smaller_side(min(width, height)))
    pack(place / "jpeg", place / "raw.pack", size=256, storage="raw")


def _compared(place: Path, size: int) -> Iterator[tuple[str, Images, Ways]]:
    """A view, Pillow's result for it, and the results of the others."""
    from abreast.records import CenterCrop, RandomCrop
    from abreast.records.decoding.gpu_pipeline import is_installed

    crop, centre = RandomCrop(flip=False), CenterCrop()
    for view, kind, antialiased in (("random part", crop, False), ("centre", centre, True)):
        boxes, files = _boxes(place / "jpeg.pack", kind, size)
        ways = {
            ("abreast, antialias" if fine else "abreast") + (" (default)" if fine == antialiased else ""): partial(
                _ours, place / "jpeg.pack", kind, size, fine
            )
            for fine in (False, True)
        }
        ways |= {
            name: partial(_as_by_gpu, place / "jpeg.pack", kind, size, fine)
            for name, fine in (("abreast, a GPU's way", False), ("abreast, a GPU's way, antialias", True))
            if is_installed()
        }
        ways |= {
            name: partial(_by_tensorflow, files, boxes, size, fine)
            for name, fine in (("tf.data", False), ("tf.data, antialias", True))
        }
        yield view, _by_pillow(files, boxes, size), ways
    folders = [place / "jpeg.pack", place / "smaller.pack"]
    boxes, files = _boxes(folders[0], crop, size)
    ways = {
        "abreast, two sizes" + (", antialias" if fine else " (default)"): partial(
            _ours, folders[0], crop, size, fine, folders[1:]
        )
        for fine in (False, True)
    }
    yield "random part", _by_pillow(files, _seen_in(folders, boxes, size), size), ways
    boxes, pixels = _boxes(place / "raw.pack", crop, size)
    ways = {
        "abreast, raw at 256" + (", antialias" if fine else " (default)"): partial(
            _ours, place / "raw.pack", crop, size, fine
        )
        for fine in (False, True)
    }
    yield "random part of 256 pixels", _by_pillow(pixels, boxes, size), ways


def _boxes(pack: Path, view: Any, size: int) -> tuple[Any, list[Any]]:
    """The parts that a loader shows in its first epoch without shuffling, with the files, or the pixels of raw images."""
    from abreast.records import Records, decode
    from abreast.records.loading.draws import uniforms

    with Records(pack) as records:
        samples = list(records)
        heights, widths = (np.array([getattr(each, name) for each in samples]) for name in ("height", "width"))
        draws = uniforms(_SEED, 0, 0, len(samples), view.num_draws) if view.num_draws else np.empty((0, 0))
        files = [bytes(each.data) if each.encoding == "jpg" else decode(each).copy() for each in samples]
        return view.views(heights, widths, (size, size), draws).boxes, files


def _seen_in(folders: list[Path], boxes: Any, size: int) -> Any:
    """The parts that a loader shows of these, in pixels of the first and in parts of them."""
    from abreast.records import Records
    from abreast.records.reading.sizes import Sizes

    sizes = Sizes(Records(folders[0]), folders[1:])
    numbers = np.arange(len(boxes))
    copies, there = sizes.copies(numbers, boxes, (size, size))
    samples = [
        (sizes.sample(number), sizes.sample(copy)) for number, copy in zip(numbers, copies.tolist(), strict=True)
    ]
    scale = np.array([(full.width / copy.width, full.height / copy.height) for full, copy in samples])
    return there * np.tile(scale, 2)


def _ours(pack: Path, view: Any, size: int, antialias: bool, smaller: Sequence[Path] = ()) -> Images:
    from abreast.records.loading.loader import Loader

    settings = {
        "smaller": smaller,
        "size": size,
        "augment": view,
        "antialias": antialias,
        "shuffle": False,
        "seed": _SEED,
    }
    with Loader(pack, _BATCH, targets=None, num_threads=1, **settings) as batches:
        return np.concatenate(list(batches))


def _as_by_gpu(pack: Path, view: Any, size: int, antialias: bool) -> Images:
    from abreast.records import Records
    from abreast.records.decoding.gpu_painters import Gpu
    from abreast.records.decoding.gpu_pipeline import DaliDevice
    from abreast.records.loading.assembly import Assembly, Look
    from abreast.records.reading.sizes import Sizes

    with Records(pack) as records:
        look = Look((size, size), view, antialias)
        assembly = Assembly(Sizes(records), look, targets=None, weights=None, max_rows=_BATCH, keep_batches=1)
        painters = Gpu(assembly.batches, 1, DaliDevice("cpu", "cpu", None)).painters()
        numbers = np.arange(len(records))
        batches = [
            assembly.start(numbers[first : first + _BATCH], _SEED, 0, first, painters, num_tasks=1).wait()
            for first in range(0, len(records), _BATCH)
        ]
        painters.finish()
        return np.concatenate(batches)


def _by_pillow(files: list[Any], boxes: Any, size: int) -> Images:
    import io

    from PIL import Image

    def made(file: Any, left: int, top: int, width: int, height: int) -> Any:
        image = Image.open(io.BytesIO(file)) if isinstance(file, bytes) else Image.fromarray(file)
        box = (left, top, left + width, top + height)
        return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box))

    return np.stack([made(file, *box) for file, box in zip(files, boxes.tolist(), strict=True)])


def _by_tensorflow(files: list[Any], boxes: Any, size: int, antialias: bool) -> Images:
    import tensorflow as tf

    made = []
    for file, (left, top, width, height) in zip(files, boxes.tolist(), strict=True):
        part = tf.image.decode_and_crop_jpeg(file, [top, left, height, width], channels=3)
        made.append(tf.cast(tf.round(tf.image.resize(part, [size, size], antialias=antialias)), tf.uint8).numpy())
    return np.stack(made)


def _report(view: dict[str, Any], reference: Images, made: Mapping[str, Images], quick: bool) -> None:
    for way, images in made.items():
        difference = np.abs(images.astype(np.int16) - reference)
        samples = difference.mean(axis=(1, 2, 3))
        notes = {
            "mean": round(float(samples.mean()), 4),
            "max": int(difference.max()),
            "far_share": round(float((difference > _FAR).mean()), 6),
            "far": _FAR,
            "num_images": len(images),
        }
        if not quick:
            lines.append([lines.line("image_quality", view | {"way": way}, samples.tolist(), "steps of 255", **notes)])
        text = f"mean {notes['mean']:6.3f}  max {notes['max']:4}  more than {_FAR}: {notes['far_share']:.3%}"
        print(f"{view['images']}  {view['view']} to {view['size']}  {way:<32}{text}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, help="images of each size")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--ways", type=lambda text: text.split(";"), help="names between semicolons")
    parser.add_argument("--quick", action="store_true", help="few images, and no lines are written")
    arguments = parser.parse_args()
    arguments.images = arguments.images or (60 if arguments.quick else 300)
    return arguments


if __name__ == "__main__":
    main()
