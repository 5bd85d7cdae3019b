"""A stored sample to upright pixels, whole or only a crop of it.

Imports `crop`, `jpeg`, `images`, `reader` for what a sample is, and `errors`.
"""

from __future__ import annotations

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.crop import Box, cut
from abreast.records.decoding.images import Pixels, check_scans, decode_jpeg, read_picture
from abreast.records.decoding.jpeg import Bytes, JpegHeader, read_header
from abreast.records.format.index import HINT
from abreast.records.reading.reader import Sample


def decode(sample: Sample) -> Pixels:
    """uint8, height by width by channels. Raises `DataError` for bytes that are not such an image."""
    if sample.encoding == "npy":
        return _raw(sample)
    if is_plain_jpeg(sample):
        checked_header(sample, read_header(sample.data))
        return _checked(sample, _jpeg(sample, sample.data))
    return _checked(sample, _picture(sample))


def decode_crop(sample: Sample, box: Box) -> Pixels:
    """The pixels of `box`, just as in the full decode; of a JPEG with restart markers only what is needed is decoded."""
    if not (0 <= box.left < box.right <= sample.width and 0 <= box.top < box.bottom <= sample.height):
        raise DataError(f"{box} is not inside of an image of {sample.width} x {sample.height} pixels")
    piece = None
    if is_plain_jpeg(sample) and len(sample.restarts):
        piece = cut(sample.data, box, sample.restarts, checked_header(sample, read_header(sample.data)))
    if piece is None:
        return decode(sample)[box.top : box.bottom, box.left : box.right]
    pixels = _jpeg(sample, piece.data)
    return pixels[piece.top : piece.top + box.height, piece.left : piece.left + box.width]


def is_plain_jpeg(sample: Sample) -> bool:
    """Whether libjpeg's pixels are the sample's."""
    return sample.encoding == "jpg" and sample.plain


def checked_header(sample: Sample, header: JpegHeader) -> JpegHeader:
    """Refuses a JPEG of another size than the index says before anything is allocated for it."""
    if (header.height, header.width) != (sample.height, sample.width):
        raise wrong(sample, f"is a JPEG of {header.width} x {header.height} pixels")
    if not header.sequential:
        check_scans(sample.data)
    return header


def _jpeg(sample: Sample, data: Bytes) -> Pixels:
    try:
        return decode_jpeg(data, "GRAY" if sample.channels == 1 else "RGB")
    except ValueError as error:
        raise wrong(sample, f"cannot be decoded: {error}") from None


def _picture(sample: Sample) -> Pixels:
    try:
        return read_picture(bytes(sample.data)).pixels
    except DataError as error:
        raise wrong(sample, f"cannot be decoded: {error.message}") from error


def _raw(sample: Sample) -> Pixels:
    """The pixels are what is behind the header of NumPy's format; the index knows their shape."""
    size = sample.height * sample.width * sample.channels
    if len(sample.data) < size:
        raise wrong(sample, f"has {len(sample.data)} bytes for {size} of pixels")
    pixels = np.frombuffer(sample.data, np.uint8)[len(sample.data) - size :]
    return pixels.reshape(sample.height, sample.width, sample.channels)


def _checked(sample: Sample, pixels: Pixels) -> Pixels:
    if pixels.shape != (sample.height, sample.width, sample.channels):
        raise wrong(sample, f"decodes to pixels of shape {pixels.shape}")
    return pixels


def wrong(sample: Sample, what: str) -> DataError:
    """The error of a sample whose bytes are as they were written, and are not the image of the index."""
    size = f"{sample.width} x {sample.height} pixels of {sample.channels}"
    return DataError(f"sample {sample.number} ({sample.key}) {what}, and the index says {size} channels", HINT)
