"""Pixels to stored bytes: JPEG with restart markers, PNG, or raw pixels. OpenCV encodes, without Python's lock."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.jpeg import restart_lengths
from abreast.records.extras import extra
from abreast.records.format.tar import npy

_PNG_LEVEL = 6
_WANTED_PIXELS, _FEWEST_PIXELS, _MOST_PIXELS = 32, 16, 64


def encode(
    pixels: Pixels, storage: str, quality: int
) -> tuple[str, bytes, npt.NDArray[np.unsignedinteger[Any]] | None]:
    """The name of the encoding, the bytes, and, for a JPEG, its restart table."""
    if storage == "raw":
        return "npy", npy(pixels), None
    if storage == "png":
        return "png", _encoded(".png", pixels, [extra("cv2").IMWRITE_PNG_COMPRESSION, _PNG_LEVEL]), None
    data = encode_jpeg(pixels, quality)
    return "jpg", data, restart_lengths(data)


def encode_jpeg(pixels: Pixels, quality: int) -> bytes:
    """A baseline JPEG, 4:2:0, with restart markers that divide each row of MCUs evenly."""
    height, width, channels = pixels.shape
    if max(height, width) > 65500:
        hint = "give a smaller size, or another storage"
        raise DataError(f"refused: a JPEG cannot have {width} x {height} pixels", hint)
    cv2 = extra("cv2")
    interval = restart_interval(width, 8 if channels == 1 else 16)
    return _encoded(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, interval])


def restart_interval(width: int, mcu_width: int) -> int:
    """The number of MCUs between restart markers: about 32 pixels, and a divisor of the MCUs of a row."""
    per_row = -(-width // mcu_width)
    pixels = range(_FEWEST_PIXELS, _MOST_PIXELS + 1)
    good = [n for n in range(1, per_row + 1) if per_row % n == 0 and n * mcu_width in pixels]
    return min(good, key=lambda n: (abs(n * mcu_width - _WANTED_PIXELS), -n), default=per_row)


def _encoded(extension: str, pixels: Pixels, settings: list[int]) -> bytes:
    cv2 = extra("cv2")
    ordered = pixels if pixels.shape[2] == 1 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(extension, ordered, settings)
    if not done:
        raise DataError(f"cannot encode {pixels.shape[1]} x {pixels.shape[0]} pixels as {extension[1:]}")
    encoded: bytes = data.tobytes()
    return encoded
