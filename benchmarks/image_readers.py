"""Ways to read a folder of JPEGs into `uint8` batches of 224 pixels, each a generator that gives batches for ever.

`READERS[name](place, cores)`: `place` holds `jpeg/` (a folder per class), `jpeg.pack`, `raw.pack` and `images.tfrecord`. Each
has as many threads or processes as cores. Frameworks are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

SIZE, BATCH, SCALE, RATIO = 224, 64, (0.08, 1.0), (3 / 4, 4 / 3)


def libjpeg(place: Path, cores: int) -> Iterator[Any]:
    """The bare decoder, of bytes that are in memory, into no batch: what is called the limit."""
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


def _abreast(pack: str, augment: bool, **settings: Any) -> Callable[[Path, int], Iterator[Any]]:
    def read(place: Path, cores: int) -> Iterator[Any]:
        from abreast.records.loader import Loader

        batches = Loader(
            place / pack, BATCH, size=SIZE, augment=augment, num_threads=cores, drop_remainder=True, **settings
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


def _pillow_view(path: Path, random: np.random.Generator) -> Any:
    """A random part by Pillow, whose resize is antialiased."""
    from PIL import Image

    with Image.open(path) as image:
        while True:
            area = image.width * image.height * random.uniform(*SCALE)
            ratio = np.exp(random.uniform(*np.log(RATIO)))
            width, height = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
            if 0 < width <= image.width and 0 < height <= image.height:
                break
        left, top = (int(random.integers(0, room + 1)) for room in (image.width - width, image.height - height))
        part = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        return np.asarray(part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part)


def pillow(place: Path, cores: int) -> Iterator[Any]:
    """A loop in Python; one core is all that it uses."""
    paths, random = sorted((place / "jpeg").rglob("*.jpg")), np.random.default_rng(0)
    while True:
        order = random.permutation(len(paths))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            yield np.stack([_pillow_view(paths[i], random) for i in order[begin : begin + BATCH]])


class _Files:
    """A map-style data set, which a worker process gets pickled."""

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


READERS: dict[str, Callable[[Path, int], Iterator[Any]]] = {
    "libjpeg-turbo, full decode alone": libjpeg,
    "abreast": _abreast("jpeg.pack", True),
    "abreast, antialias": _abreast("jpeg.pack", True, antialias=True),
    "abreast, raw at 256": _abreast("raw.pack", True),
    "abreast, centre": _abreast("jpeg.pack", False),
    "abreast, centre, no antialias": _abreast("jpeg.pack", False, antialias=False),
    "tf.data": _tf_data("bilinear"),
    "tf.data, antialias": _tf_data("antialiased"),
    "tf.data, centre": _tf_data("centre"),
    "Keras, resize": _keras(False),
    "Keras, RandomCrop and RandomFlip": _keras(True),
    "DataLoader and Pillow": torch_loader,
    "Pillow": pillow,
}
