"""A reader of checkpoints written from `docs/reference/checkpoint-format.md` alone. Raises anything for what it refuses."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

SIMPLE = {f"{kind}int{bits}": f"{kind or 'i'}{bits}".upper() for kind in ("", "u") for bits in (8, 16, 32, 64)}
SIMPLE |= {"bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64", "bfloat16": "BF16"}
SIMPLE |= {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
RAW = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
RAW += ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"]
NUMBERS = {"int2": "I8", "int4": "I8", "uint2": "U8", "uint4": "U8"}
RANGES = {"bool": (0, 1), "int2": (-2, 1), "int4": (-8, 7), "uint2": (0, 3), "uint4": (0, 15)}
RANGES |= {"float4_e2m1fn": (0, 15), "float6_e2m3fn": (0, 63), "float6_e3m2fn": (0, 63)}
MANIFEST = {"format", "version", "written_at", "written_by", "values", "files", "tensors", "sha256"}


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    data = bounded(path / "manifest.json", 2**28)
    body = data[: -len(b',\n "sha256": ""\n}\n') - 64]
    assert data == body + f',\n "sha256": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode()
    manifest = strict(data)
    assert set(manifest) == MANIFEST and manifest["format"] == "abreast checkpoint" and whole(manifest["version"]) == 1
    assert all(isinstance(text, str) for text in (manifest["written_at"], *manifest["written_by"].values()))
    files, tensors = manifest["files"], manifest["tensors"]
    assert isinstance(files, list) and isinstance(tensors, list) and isinstance(manifest["values"], dict)
    names = [f"tensors-{i:05d}-of-{len(files):05d}.safetensors" for i in range(len(files))]
    assert [file["name"] for file in files] == names
    assert all(set(tensor) == {"name", "file", "dtype", "shape", "offset", "bytes", "crc32"} for tensor in tensors)
    assert len({each["name"] for each in tensors}) == len(tensors) and {each["file"] for each in tensors} <= {*names}
    parts = [read_file(path / file["name"], file, [t for t in tensors if t["file"] == file["name"]]) for file in files]
    found = {name: array for part in parts for name, array in part.items()}
    return {tensor["name"]: found[tensor["name"]] for tensor in tensors}, dict(meaning(manifest["values"]).items())


def read_file(path: Path, file: dict[str, Any], tensors: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    data = bounded(path, whole(file["bytes"]))
    assert set(file) == {"name", "bytes", "sha256"} and hashlib.sha256(data).hexdigest() == file["sha256"]
    tensors = sorted(tensors, key=lambda tensor: (whole(tensor["offset"]), whole(tensor["bytes"])))
    begin = end = tensors[0]["offset"] if tensors else len(data)
    assert begin <= 100_000_000 and int.from_bytes(data[:8], "little") == begin - 8 and data[8:9] == b"{"
    header = strict(data[8:begin])
    assert all(isinstance(text, str) for text in header.pop("__metadata__", {}).values())
    found, expected = {}, {}
    for tensor in tensors:
        name, dtype, shape, offset, size = (tensor[key] for key in ("name", "dtype", "shape", "offset", "bytes"))
        assert isinstance(name, str) and isinstance(shape, list) and whole(tensor["crc32"]) >= 0 and offset == end
        in_header = (SIMPLE | NUMBERS | dict.fromkeys(RAW, "U8"))[dtype]
        kind = np.dtype(dtype if hasattr(np, dtype) else getattr(ml_dtypes, dtype))
        stored = np.dtype(in_header.lower().replace("8", "1")) if dtype in NUMBERS else kind
        assert size == math.prod(map(whole, shape)) * stored.itemsize
        end = offset + size
        array = np.frombuffer(data[offset:end], stored).reshape(shape)
        check = array.view(np.uint8) if dtype in RANGES and dtype not in NUMBERS else array
        assert dtype not in RANGES or all(RANGES[dtype][0] <= each <= RANGES[dtype][1] for each in check.flat)
        found[name] = array.astype(kind)
        expected[name] = {"dtype": in_header, "shape": shape, "data_offsets": [offset - begin, end - begin]}
    assert end == len(data) == file["bytes"] and json.dumps(header, sort_keys=True) == json.dumps(
        expected, sort_keys=True
    )
    return found


def bounded(path: Path, most: int) -> bytes:
    assert not path.is_symlink() and path.is_file() and path.stat().st_size <= most
    return path.read_bytes()


def meaning(value: Any) -> Any:
    if isinstance(value, list):
        return [meaning(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$float"}:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value["$float"]]
    if set(value) == {"$int"} and hex(int(value["$int"], 16)) == value["$int"]:
        return int(value["$int"], 16)
    assert all(key[:1] != "$" or key[1:2] == "$" for key in value)
    return {key[1:] if key.startswith("$") else key: meaning(each) for key, each in value.items()}


def strict(data: bytes) -> Any:
    return json.loads(data.decode(), object_pairs_hook=unique, parse_constant=lambda text: [][0])


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def whole(value: Any) -> int:
    assert type(value) is int and 0 <= value < 2**63
    return value
