"""Writers of other tools' formats, made from their published descriptions; they can also write invalid data."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from abreast.records import pack
from tests.records.pieces import class_folder, file_of, items, known, photo


def jpeg(seed: int = 0) -> bytes:
    return file_of(photo(12, 16, seed=seed), "JPEG", quality=90)


def png(seed: int = 0) -> bytes:
    return file_of(photo(4, 5, seed=seed), "PNG")


def write_tar(path: Path, members: Iterable[tuple[str, bytes]], **settings: Any) -> Path:
    """Python's own writer."""
    with tarfile.open(path, "w", **settings) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def samples(count: int, begin: int = 0) -> list[tuple[str, bytes]]:
    """Members of images with a class and an object of columns each."""
    found = []
    for i in range(begin, begin + count):
        found += [
            (f"set/{i:03d}.png", png(i)),
            (f"set/{i:03d}.cls", str(i % 3).encode()),
            (f"set/{i:03d}.json", b'{"score": %d.5, "text": "a"}' % i),
        ]
    return found


def masked_crc(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(record: bytes) -> bytes:
    """A record of a TFRecord file."""
    size = struct.pack("<Q", len(record))
    return size + masked_crc(size) + record + masked_crc(record)


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


Values = Sequence[bytes] | Sequence[int] | Sequence[float]


def feature(values: Values) -> bytes:
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values if isinstance(value, bytes)))
    if values and isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(varint(value) for value in values if isinstance(value, int))))


def example(features: Mapping[str, Values]) -> bytes:
    """A `tf.train.Example`."""
    entries = [field(1, field(1, name.encode()) + field(2, feature(values))) for name, values in features.items()]
    return field(1, b"".join(entries))


MAGIC = struct.pack("<I", 0xCED7230A)


def recordio(record: bytes) -> bytes:
    """A record of a RecordIO file, cut where the magic number stands at a fourth byte."""
    places = [i for i in range(0, len(record) // 4 * 4, 4) if record[i : i + 4] == MAGIC]
    begins, ends = [0, *(place + 4 for place in places)], [*places, len(record)]
    found = b""
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        flag = 0 if not places else 1 if i == 0 else 3 if i == len(places) else 2
        found += MAGIC + struct.pack("<I", flag << 29 | end - begin) + record[begin:end]
    return found + bytes(-len(found) % 4)


def im2rec(image: bytes, labels: Sequence[float], number: int, array: bool = False) -> bytes:
    """A record as im2rec makes it: a header of labels and the image."""
    if len(labels) == 1 and not array:
        return struct.pack("<IfQQ", 0, labels[0], number, 0) + image
    return struct.pack("<IfQQ", len(labels), 0, number, 0) + struct.pack(f"<{len(labels)}f", *labels) + image


KINDS = ("folder", "arrays", "tar", "tfrecord", "recordio", "parquet", "records")


def parquet(path: Path) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"image": [png(i) for i in range(20)], "x": range(20)}), path)
    return path


def packed(folder: Path) -> Path:
    pack(known(items(20)), folder, storage="png", shard_mb=0.01, threads=1)
    return folder


def sources(folder: Path) -> dict[str, Any]:
    """A source of 20 images of each kind."""
    (folder / "a.tfrecord").write_bytes(
        b"".join(framed(example({"image/encoded": [png(i)], "x": [i]})) for i in range(20))
    )
    (folder / "a.rec").write_bytes(b"".join(recordio(im2rec(png(i), [float(i)], i)) for i in range(20)))
    return {
        "folder": class_folder(folder / "in", per_class=10),
        "arrays": (np.stack([photo(8, 9, seed=i) for i in range(20)]), np.arange(20)),
        "tar": write_tar(folder / "a.tar", samples(20)),
        "tfrecord": folder / "a.tfrecord",
        "recordio": folder / "a.rec",
        "parquet": parquet(folder / "a.parquet"),
        "records": packed(folder / "packed"),
    }
