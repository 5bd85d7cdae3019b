"""A folder of JPEGs in each form that a reader of `image_readers.py` needs: packs, a TFRecord file, an ArrayRecord file.

Imports abreast. TensorFlow runs in its own process. A form whose package is missing is left out.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_WRITE_TFRECORD = (
    "import sys, pathlib, tensorflow as tf\n"
    "with tf.io.TFRecordWriter(sys.argv[2]) as file:\n"
    "    for path in sorted(pathlib.Path(sys.argv[1]).rglob('*.jpg')):\n"
    "        data = tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()]))\n"
    "        file.write(tf.train.Example(features=tf.train.Features(feature={'image': data})).SerializeToString())\n"
)


def smaller_side(short_side: int) -> int:
    """The short side of the second data set for `ImageRecords(smaller=...)`."""
    return short_side * 3 // 4


def is_there(package: str) -> bool:
    """Whether a package, or a part of one as `nvidia.dali`, can be imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def prepare(place: Path, short_side: int, quality: int, environment: Mapping[str, str]) -> None:
    """Write the other forms of the images in `place/jpeg`, which have that short side, beside them."""
    from abreast.records import pack

    pack(place / "jpeg", place / "jpeg.pack", quality=quality)
    pack(place / "jpeg", place / "smaller.pack", quality=quality, size=smaller_side(short_side))
    pack(place / "jpeg", place / "raw.pack", size=256, storage="raw")
    if is_there("tensorflow"):
        command = [sys.executable, "-c", _WRITE_TFRECORD, str(place / "jpeg"), str(place / "images.tfrecord")]
        subprocess.run(command, env=os.environ | environment, check=True)
    if is_there("array_record"):
        _write_array_record(place / "jpeg", place / "images.array_record")


def _write_array_record(folder: Path, path: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), "group_size:1")  # as its authors advise for reading samples one by one
    for each in sorted(folder.rglob("*.jpg")):
        writer.write(each.read_bytes())
    writer.close()
