"""Ways to read a folder of JPEGs into `uint8` batches of 224 pixels, each an endless generator.

`READERS[name].read(place, cores)`: `image_sets.py` prepares `place`. Each reader has as many threads or processes as
cores. Frameworks are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

SIZE, BATCH, SCALE, RATIO = 224, 64, (0.08, 1.0), (3 / 4, 4 / 3)


def libjpeg(place: Path, cores: int) -> Iterator[Any]:
    """The decoder alone, with files in memory and without batches: the limit."""
    import simplejpeg

    files = [path.read_bytes() for path in sorted((place / "jpeg").rglob("*.jpg"))]
    pool = ThreadPoolExecutor(cores)

    def decode(part: list[bytes]) -> int:
        return sum(simplejpeg.decode_jpeg(data, "RGB").shape[0] > 0 for data in part)

    rows = BATCH // cores
    parts = [files[begin : begin + rows] for begin in range(0, len(files) - len(files) % BATCH, rows)]
    while True:
        for begin in range(0, len(parts), cores):
            yield np.empty(sum(pool.map(decode, parts[begin : begin + cores])))


def _abreast(
    pack: str, augment: bool, processes: bool = False, smaller: tuple[str, ...] = (), **settings: Any
) -> Callable[[Path, int], Iterator[Any]]:
    def read(place: Path, cores: int) -> Iterator[Any]:
        from abreast.records.loading.loader import Loader

        batches = Loader(
            *(place / pack, BATCH),
            size=SIZE,
            augment=augment,
            num_threads=cores,
            num_workers=cores if processes else 0,
            smaller=[place / each for each in smaller],
            drop_remainder=True,
            **settings,
        )
        while True:
            for images, _ in batches:
                yield images

    return read


def _tf_data(view: str) -> Callable[[Path, int], Iterator[Any]]:
    """`bilinear`, `antialiased` or `centre`."""

    def read(place: Path, cores: int) -> Iterator[Any]:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cores)

        def image(record: Any) -> Any:
            data = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
            shape = tf.io.extract_jpeg_shape(data)
            if view == "centre":
                side = tf.cast(tf.cast(tf.minimum(shape[0], shape[1]), tf.float32) * 0.875, tf.int32)
                window = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
            else:
                box = tf.zeros([1, 0, 4])
                begin, size, _ = tf.image.sample_distorted_bounding_box(
                    shape, box, aspect_ratio_range=RATIO, area_range=SCALE, max_attempts=10,
                    use_image_if_no_bounding_boxes=True,
                )  # fmt: skip
                window = tf.stack([begin[0], begin[1], size[0], size[1]])
            pixels = tf.image.decode_and_crop_jpeg(data, window, channels=3)
            pixels = tf.image.resize(pixels, [SIZE, SIZE], antialias=view != "bilinear")
            if view != "centre":
                pixels = tf.image.random_flip_left_right(pixels)
            return tf.cast(tf.round(pixels), tf.uint8)

        records = tf.data.TFRecordDataset(str(place / "images.tfrecord")).repeat().shuffle(256)
        options = tf.data.Options()
        options.threading.private_threadpool_size = cores
        batches = records.map(image, cores).batch(BATCH).prefetch(2).with_options(options)
        return iter(batches.as_numpy_iterator())

    return read


def _keras(crop: bool) -> Callable[[Path, int], Iterator[Any]]:
    """`image_dataset_from_directory`, which resizes whole images; with its layers for crop and flip."""

    def read(place: Path, cores: int) -> Iterator[Any]:
        import keras
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cores)
        whole = (256, 256) if crop else (SIZE, SIZE)
        data = keras.utils.image_dataset_from_directory(
            place / "jpeg", batch_size=BATCH, image_size=whole, verbose=False
        )
        if crop:
            layers = [keras.layers.RandomCrop(SIZE, SIZE), keras.layers.RandomFlip("horizontal")]
            data = data.map(lambda x, y: (layers[1](layers[0](x, training=True), training=True), y), cores)
        options = tf.data.Options()
        options.threading.private_threadpool_size = cores
        for images, _ in data.repeat().prefetch(2).with_options(options):
            yield images.numpy().astype(np.uint8)

    return read


def _window(width: int, height: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """A random part: left, top, width and height."""
    while True:
        area = width * height * random.uniform(*SCALE)
        ratio = np.exp(random.uniform(*np.log(RATIO)))
        wide, tall = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < tall <= height:
            return int(random.integers(0, width - wide + 1)), int(random.integers(0, height - tall + 1)), wide, tall


def _pillow_view(path: Path, random: np.random.Generator) -> Any:
    """A random part by Pillow, whose resize is antialiased."""
    from PIL import Image

    with Image.open(path) as image:
        left, top, width, height = _window(image.width, image.height, random)
        part = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        return np.asarray(part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part)


def pillow(place: Path, cores: int) -> Iterator[Any]:
    """A loop in Python, which uses one core."""
    paths, random = sorted((place / "jpeg").rglob("*.jpg")), np.random.default_rng(0)
    while True:
        order = random.permutation(len(paths))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            yield np.stack([_pillow_view(paths[i], random) for i in order[begin : begin + BATCH]])


class _Files:
    """A map-style data set, which is sent to worker processes as a pickle."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return _pillow_view(self.paths[index], np.random.default_rng())


def torch_loader(place: Path, cores: int) -> Iterator[Any]:
    """A `DataLoader` with Pillow and a worker process per core; on one core, in the process itself."""
    import torch

    torch.set_num_threads(1)
    data = _Files(sorted((place / "jpeg").rglob("*.jpg")))
    workers = cores if cores > 1 else 0
    loader = torch.utils.data.DataLoader(
        data, BATCH, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=bool(workers)
    )
    while True:
        for images in loader:
            yield images.numpy()


def grain_threads(place: Path, cores: int) -> Iterator[Any]:
    """An ArrayRecord file, decoded by the fastest functions for whole images: grain leaves the decoding to its user.

    It uses threads: simplejpeg and OpenCV release Python's lock, and grain's processes would copy batches through shared memory.
    """
    import cv2
    import grain
    import simplejpeg

    cv2.setNumThreads(1)

    def image(data: bytes, random: np.random.Generator) -> Any:
        pixels = simplejpeg.decode_jpeg(data, "RGB")
        left, top, width, height = _window(pixels.shape[1], pixels.shape[0], random)
        part = pixels[top : top + height, left : left + width]
        made = cv2.resize(part, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
        return cv2.flip(made, 1) if random.random() < 0.5 else made

    source = grain.sources.ArrayRecordDataSource([str(place / "images.array_record")])
    images = grain.MapDataset.source(source).seed(0).shuffle().repeat().random_map(image)
    options = grain.ReadOptions(num_threads=cores, prefetch_buffer_size=2 * BATCH)
    yield from images.to_iter_dataset(options).batch(BATCH)


def _dali(antialias: bool) -> Callable[[Path, int], Iterator[Any]]:
    """NVIDIA's pipeline with all its operators on the CPU; its decoder leaves out rows that the crop does not need."""

    def read(place: Path, cores: int) -> Iterator[Any]:
        from nvidia.dali import fn, pipeline_def, types

        @pipeline_def(batch_size=BATCH, num_threads=cores, device_id=None, seed=0)  # type: ignore[misc]
        def images() -> Any:
            files, _ = fn.readers.file(file_root=str(place / "jpeg"), random_shuffle=True)
            part = fn.decoders.image_random_crop(files, random_area=SCALE, random_aspect_ratio=RATIO)
            made = fn.resize(part, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=antialias)
            return fn.flip(made, horizontal=fn.random.coin_flip())

        pipeline = images()
        pipeline.build()
        while True:
            (batch,) = pipeline.run()
            yield batch.as_array()

    return read


class Reader(NamedTuple):
    """`shows` is the part of an image that the reader yields; `image_check.py` checks it."""

    read: Callable[[Path, int], Iterator[Any]]
    shows: Literal["random part", "centre", "whole", "random place", "nothing"] = "random part"
    packages: tuple[str, ...] = ()
    needs_gpu: bool = False

    def missing(self) -> list[str]:
        """The needs that this machine lacks."""
        import image_sets

        from abreast.device_list import list_nvidia_devices

        found = [name for name in self.packages if not image_sets.is_there(name)]
        return found + (["a GPU"] if self.needs_gpu and not list_nvidia_devices() else [])

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The environment variables of its process. A reader that needs a GPU sees the GPUs of this machine."""
        return {name: value for name, value in variables.items() if not (self.needs_gpu and name == _GPUS)}


_GPUS = "CUDA_VISIBLE_DEVICES"
_TENSORFLOW = ("tensorflow",)
_ARRAY_RECORD = ("grain", "array_record")
_DALI = ("nvidia.dali",)

READERS: dict[str, Reader] = {
    "libjpeg-turbo, full decode alone": Reader(libjpeg, "nothing"),
    "abreast": Reader(_abreast("jpeg.pack", True)),
    "abreast, in processes": Reader(_abreast("jpeg.pack", True, processes=True)),
    "abreast, two sizes": Reader(_abreast("jpeg.pack", True, smaller=("smaller.pack",))),
    "abreast, two sizes, in processes": Reader(_abreast("jpeg.pack", True, processes=True, smaller=("smaller.pack",))),
    "abreast, GPU": Reader(_abreast("jpeg.pack", True, decoder="gpu"), packages=_DALI, needs_gpu=True),
    "abreast, centre, GPU": Reader(_abreast("jpeg.pack", False, decoder="gpu"), "centre", _DALI, needs_gpu=True),
    "abreast, antialias": Reader(_abreast("jpeg.pack", True, antialias=True)),
    "abreast, raw at 256": Reader(_abreast("raw.pack", True)),
    "abreast, centre": Reader(_abreast("jpeg.pack", False), "centre"),
    "abreast, centre, no antialias": Reader(_abreast("jpeg.pack", False, antialias=False), "centre"),
    "tf.data": Reader(_tf_data("bilinear"), packages=_TENSORFLOW),
    "tf.data, antialias": Reader(_tf_data("antialiased"), packages=_TENSORFLOW),
    "tf.data, centre": Reader(_tf_data("centre"), "centre", _TENSORFLOW),
    "Keras, resize": Reader(_keras(False), "whole", _TENSORFLOW),
    "Keras, RandomCrop and RandomFlip": Reader(_keras(True), "random place", _TENSORFLOW),
    "grain and simplejpeg": Reader(grain_threads, packages=_ARRAY_RECORD),
    "DALI": Reader(_dali(False), packages=_DALI),
    "DALI, antialias": Reader(_dali(True), packages=_DALI),
    "DataLoader and Pillow": Reader(torch_loader, packages=("torch",)),
    "Pillow": Reader(pillow),
}
