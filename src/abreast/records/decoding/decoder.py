"""A stored sample becomes upright pixels: the whole image, or only a crop of it."""

from __future__ import annotations

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.crop import Box, cut
from abreast.records.decoding.images import Pixels, check_scans, decode_jpeg, read_picture
from abreast.records.decoding.jpeg import Bytes, JpegHeader, read_header
from abreast.records.format.index import HINT
from abreast.records.reading.reader import Sample


def decode(sample: Sample) -> Pixels:
    """The pixels of a sample: upright, `uint8`, shape (height, width, channels).

    Args:
        sample: a sample of `Records`.

    Raises:
        DataError: the bytes are not the image that the index describes.

    Example:
        >>> import numpy as np
        >>> from abreast.records import Records, decode, pack
        >>> images = np.random.default_rng(0).integers(0, 256, (3, 32, 48, 3), np.uint8)
        >>> summary = pack(images, "images.pack", storage="png")
        >>> bool((decode(Records("images.pack")[1]) == images[1]).all())
        True
    """
    if sample.encoding == "npy":
        return _raw(sample)
    if is_plain_jpeg(sample):
        checked_header(sample, read_header(sample.data))
        return _checked(sample, _jpeg(sample, sample.data))
    return _checked(sample, _picture(sample))


def decode_crop(sample: Sample, box: Box) -> Pixels:
    """The pixels of a part, equal to those of the full decode: `uint8`, shape (`box.height`, `box.width`, channels).

    A JPEG with restart markers, as `pack` writes them, is decoded only where needed.

    Args:
        sample: a sample of `Records`.
        box: the part, in pixels of the upright image.

    Raises:
        DataError: the part is outside of the image, or the bytes are not the image that the index describes.

    Example:
        >>> import numpy as np
        >>> from abreast.records import Box, Records, decode, decode_crop, pack
        >>> summary = pack(np.zeros((3, 64, 96, 3), np.uint8), "images.pack")
        >>> sample = Records("images.pack")[0]
        >>> part = decode_crop(sample, Box(left=10, top=20, width=32, height=16))
        >>> part.shape, bool((part == decode(sample)[20:36, 10:42]).all())
        ((16, 32, 3), True)
    """
    if not (0 <= box.left < box.right <= sample.width and 0 <= box.top < box.bottom <= sample.height):
        raise DataError(f"{box} is outside of an image of {sample.width} x {sample.height} pixels")
    piece = None
    if is_plain_jpeg(sample) and len(sample.restarts):
        piece = cut(sample.data, box, sample.restarts, checked_header(sample, read_header(sample.data)))
    if piece is None:
        return decode(sample)[box.top : box.bottom, box.left : box.right]
    pixels = _jpeg(sample, piece.data)
    return pixels[piece.top : piece.top + box.height, piece.left : piece.left + box.width]


def is_plain_jpeg(sample: Sample) -> bool:
    """True for a JPEG whose pixels are final when libjpeg has decoded it."""
    return sample.encoding == "jpg" and sample.plain


def checked_header(sample: Sample, header: JpegHeader) -> JpegHeader:
    """The header. Raises `DataError` if its size is not the index's, before memory is allocated for the pixels."""
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
    """The pixels after the header of NumPy's format, which is not read: the index has their shape."""
    size = sample.height * sample.width * sample.channels
    if len(sample.data) < size:
        raise wrong(sample, f"has {len(sample.data)} bytes, too few for {size} bytes of pixels")
    pixels = np.frombuffer(sample.data, np.uint8)[len(sample.data) - size :]
    return pixels.reshape(sample.height, sample.width, sample.channels)


def _checked(sample: Sample, pixels: Pixels) -> Pixels:
    if pixels.shape != (sample.height, sample.width, sample.channels):
        raise wrong(sample, f"decodes to pixels of shape {pixels.shape}")
    return pixels


def wrong(sample: Sample, what: str) -> DataError:
    """The error for a sample whose checksum is right, and whose bytes are not the image that the index describes."""
    size = f"{sample.width} x {sample.height} pixels of {sample.channels}"
    return DataError(f"sample {sample.number} ({sample.key}) {what}, and the index says {size} channels", HINT)
