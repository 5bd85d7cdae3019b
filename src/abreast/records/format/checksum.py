"""The two checksums of the format: CRC32C of a sample, which takes a few microseconds, and SHA-256 of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.records.extras import extra

Bytes = bytes | memoryview | npt.NDArray[Any]


def crc32c(data: Bytes) -> int:
    """CRC32C (Castagnoli, RFC 3720) of the bytes of `data`."""
    # google_crc32c refuses a memoryview, and accepts an array of bytes over the same memory.
    flat = data if isinstance(data, bytes) else np.frombuffer(data, np.uint8)
    checksum: int = extra("google_crc32c").value(flat)
    return checksum


def sha256_of_file(path: Path) -> str:
    """The digest in lower-case hexadecimal, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
