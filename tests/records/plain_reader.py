"""A reader of image records written from their specification, with Python's standard library only."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NUMBERS = {"|b1": "?", "|i1": "b", "|u1": "B", "<i2": "h", "<i4": "i", "<i8": "q", "<u2": "H", "<u4": "I", "<u8": "Q"}
NUMBERS |= {"<f2": "e", "<f4": "f", "<f8": "d"}
ENCODINGS = ("npy", "jpg", "png", "webp", "bmp", "gif", "tiff", "ppm")


def samples(folder: Path) -> Iterator[dict[str, Any]]:
    """Every sample; `AssertionError` where a byte is not as the page says."""
    text = (folder / "manifest.json").read_bytes()
    whole = json.loads(text)
    assert text == json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    content = json.dumps(whole["content"], sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(content).hexdigest() == whole["sha256"]
    for shard in whole["content"]["shards"]:
        index = (folder / f"{shard['name']}.index").read_bytes()
        tar = (folder / f"{shard['name']}.tar").read_bytes()
        assert hashlib.sha256(index).hexdigest() == shard["index_sha256"]
        assert hashlib.sha256(tar).hexdigest() == shard["tar_sha256"]
        yield from _of_shard(index, tar)


def _of_shard(index: bytes, tar: bytes) -> Iterator[dict[str, Any]]:
    magic, version, num_sections, num_samples, first, _, tar_bytes, index_bytes = struct.unpack_from(
        "<8sIIQQQQQ", index
    )
    assert (magic, version, tar_bytes, index_bytes) == (b"ABRINDEX", 1, len(tar), len(index))
    assert index[56:88] == hashlib.sha256(tar).digest()
    assert crc32c(index[:88] + bytes(4) + index[92 : 96 + 80 * num_sections]) == struct.unpack_from("<I", index, 88)[0]
    assert hashlib.sha256(index[:-32]).digest() == index[-32:]
    sections = dict(_sections(index, num_sections))
    columns = json.loads(sections["columns"])
    values = {column["name"]: _values(column, sections, num_samples) for column in columns}
    key_begin = restart_begin = 0
    for i in range(num_samples):
        row = struct.unpack_from("<QQQQIIIBBBB", sections["samples"], 48 * i)
        offset, length, key_end, restart_end, checksum, height, width, channels, encoding, _, _ = row
        assert crc32c(tar[offset : offset + length]) == checksum
        yield {
            "number": first + i,
            "key": sections["keys"][key_begin:key_end].decode(),
            "data": tar[offset : offset + length],
            "size": (height, width, channels),
            "encoding": ENCODINGS[encoding],
            "num_restarts": restart_end - restart_begin,
            "columns": {name: column[i] for name, column in values.items()},
        }
        key_begin, restart_begin = key_end, restart_end


def _sections(index: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    place = 96 + 80 * count
    for i in range(count):
        name, _, offset, size, checksum, zero = struct.unpack_from("<48s8sQQII", index, 96 + 80 * i)
        assert offset == (place + 63) // 64 * 64 and not any(index[place:offset]) and zero == 0
        assert crc32c(index[offset : offset + size]) == checksum
        yield name.rstrip(b"\0").decode("ascii"), index[offset : offset + size]
        place = offset + size
    assert place == len(index) - 32


def _values(column: dict[str, Any], sections: dict[str, bytes], num_samples: int) -> list[Any]:
    """Numbers in C order without their shape, text, or bytes."""
    code = NUMBERS.get(column["type"], "B")
    stored = sections[f"column.{column['name']}"]
    numbers = struct.unpack(f"<{len(stored) // struct.calcsize(code)}{code}", stored)
    axes = len(column["shape"])
    shapes = [tuple(column["shape"])] * num_samples
    if None in column["shape"]:
        flat = sections[f"shapes.{column['name']}"]
        shapes = [struct.unpack_from(f"<{axes}I", flat, 4 * axes * i) for i in range(num_samples)]
    found: list[Any] = []
    begin = 0
    for shape in shapes:
        count = 1
        for size in shape:
            count *= size
        part = numbers[begin : begin + count]
        data = bytes(part) if column["type"] in ("text", "bytes") else b""
        found.append(data.decode() if column["type"] == "text" else data or list(part))
        begin += count
    assert begin == len(numbers)
    return found


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_CRC = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
