"""Turns any image file into upright sRGB pixels of 8 bits, in one channel or three, or refuses it with the reason.

Only a fixed list of formats is read, and no animations. The limits on bytes, pixels and scans are checked before decoding.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.decoding.jpeg import Bytes, num_scans
from abreast.records.extras import extra
from abreast.records.format.index import MAX_PIXELS

# Pillow's names of formats. Formats that run another program or have a language (EPS, WMF, PDF) are left out.
ENCODING_OF = {
    "JPEG": "jpg",
    "MPO": "jpg",  # several JPEGs in one file, as phones write them; the first is the image
    "PNG": "png",
    "WEBP": "webp",
    "BMP": "bmp",
    "GIF": "gif",
    "TIFF": "tiff",
    "PPM": "ppm",
}
_OPENED = tuple(name for name in ENCODING_OF if name != "MPO")  # Pillow opens MPO as JPEG
_ORIENTATION = 0x0112
_DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N")
_TIFF_BITS, _TIFF_PHOTOMETRIC, _MIN_IS_WHITE = 258, 262, 0
_CMYK_NOTE = "CMYK without a colour profile: its colours are approximate"
# Descriptions of profiles that are exactly the standard's sRGB, by HP, lcms, the ICC and GIMP. Other profiles with sRGB in
# their name are different, such as linear ones.
_SRGB = frozenset(
    {"sRGB IEC61966-2.1", "sRGB IEC61966-2-1 black scaled", "sRGB built-in", "sRGB2014", "GIMP built-in sRGB"}
)
_PROFILE_NOTE = "its colour profile cannot be used: its colours are read as sRGB"

# The size of the largest image without compression: 16 bits in three channels.
MAX_FILE_BYTES = 6 * MAX_PIXELS
_STRIP_PIXELS = 1 << 20
# Each scan of a progressive JPEG is a pass over all of its pixels; encoders write about ten.
MAX_SCANS = 100
_BEGINNINGS = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8|RIFF....WEBP|BM|II\*\0|MM\0\*|P[1-6]\s", re.DOTALL)

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Picture:
    """Upright pixels, height by width by 1 or 3 channels, and facts about their file.

    `encoding` is a word of `index.ENCODINGS`. `plain` means that a decoder's pixels are final: they need no turning and no
    other colours. `note` has the reason if the pixels are not exact.
    """

    pixels: Pixels
    encoding: str
    orientation: int
    plain: bool
    note: str | None = None


def check_file_bytes(size_bytes: int, limit: int | None = None) -> None:
    """Raise `DataError` for a file that is too large to be an image, before it is read."""
    limit = MAX_FILE_BYTES if limit is None else limit
    if size_bytes > limit:
        raise DataError(f"refused: a file of {size_bytes} bytes, more than {limit}")


def looks_like_image(data: bytes) -> bool:
    """True if the bytes begin like an image file."""
    return _BEGINNINGS.match(data) is not None


def check_scans(data: Bytes) -> None:
    """Raise `DataError` for a JPEG with so many scans that decoding would take very long."""
    scans = num_scans(data, MAX_SCANS)
    if scans > MAX_SCANS:
        raise DataError(f"refused: a JPEG of more than {MAX_SCANS} scans", "save it again with any image program")


def read_picture(data: bytes, short_side: int | None = None) -> Picture:
    """The decoded image, shrunk if its short side is longer than `short_side` pixels. Raises `DataError`."""
    try:
        return _picture(data, short_side)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged bytes make decoders raise any kind of error
        what = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, extra("PIL").UnidentifiedImageError):
            what = f"not an image in one of {', '.join(_OPENED)}"
            if looks_like_image(data):
                what = "it begins like an image file, and is damaged or cut off"
        raise DataError(f"cannot read the image: {what:.200}") from error


def shrink(pixels: Pixels, short_side: int | None) -> Pixels:
    """The image, resized to that short side if its own is longer."""
    return resized(pixels, *shrunk_size(pixels.shape[0], pixels.shape[1], short_side))


def shrunk_size(height: int, width: int, short_side: int | None) -> tuple[int, int]:
    """Height and width of the image after `shrink`."""
    short = min(height, width)
    if short_side is None or short <= short_side:
        return height, width
    return max(1, round(height * short_side / short)), max(1, round(width * short_side / short))


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """A smaller image, in which each pixel is the mean of the area that it covers. OpenCV runs without Python's lock."""
    if pixels.shape[:2] == (height, width):
        return pixels
    smaller: Pixels = extra("cv2").resize(pixels, (width, height), interpolation=extra("cv2").INTER_AREA)
    return smaller.reshape(height, width, pixels.shape[2])


def _open(data: bytes) -> Any:
    """Pillow's image, with only its header read. Raises `DataError` for an image that is too large or animated."""
    image = extra("PIL.Image").open(io.BytesIO(data), formats=_OPENED)
    if image.width * image.height > MAX_PIXELS:
        raise DataError(f"refused: {image.width} x {image.height} pixels are more than {MAX_PIXELS}")
    # `n_frames` is not read: a file of a few hundred megabytes may have millions of frames, and Pillow would visit each.
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise DataError(f"refused: an animated or several-page {image.format}")
    if image.mode in ("I", "F"):
        raise DataError(f"refused: {image.format} with pixels of type {image.mode}, whose range is unknown")
    return image


def _orientation(image: Any) -> int:
    value = image.getexif().get(_ORIENTATION, 1)
    return value if value in range(1, 9) else 1


def _picture(data: bytes, short_side: int | None) -> Picture:
    header = _open(data)
    if header.format in ("JPEG", "MPO"):
        check_scans(data)
    orientation = _orientation(header)
    plain = orientation == 1 and header.mode in ("L", "RGB") and not _profile(header)
    if header.format in ("JPEG", "MPO") and header.mode in ("L", "RGB"):
        pixels, note = _decoded_jpeg(data, header, short_side), None
        if _profile(header):
            pixels, note = _in_srgb(_image(pixels), _profile(header), {})
        pixels, size = _turned(pixels, orientation), (header.height, header.width)
        size = size if orientation < 5 else (header.width, header.height)
    else:
        header.load()
        tags = getattr(header, "tag_v2", {})
        extra("PIL.ImageOps").exif_transpose(header, in_place=True)
        pixels, note = _in_srgb(header, _profile(header), tags)
        size = pixels.shape[:2]
    pixels = resized(pixels, *shrunk_size(*size, short_side))
    return Picture(pixels, ENCODING_OF[header.format], orientation, plain, note)


def _profile(header: Any) -> bytes | None:
    profile: bytes | None = header.info.get("icc_profile")
    return profile


def _decoded_jpeg(data: bytes, header: Any, short_side: int | None) -> Pixels:
    """The pixels at the smallest of libjpeg's sizes (n/8) that has twice the wanted short side or more."""
    at_least = (0, 0)
    if short_side is not None and min(header.height, header.width) > 2 * short_side:
        at_least = shrunk_size(header.height, header.width, 2 * short_side)
    return decode_jpeg(data, "GRAY" if header.mode == "L" else "RGB", *at_least)


def decode_jpeg(data: Bytes, colours: str, min_height: int = 0, min_width: int = 0) -> Pixels:
    """The pixels of a JPEG, height by width by channels; its size must be checked before. Raises `ValueError`."""
    pixels: Pixels = extra("simplejpeg").decode_jpeg(data, colours, min_height=min_height, min_width=min_width)
    return pixels


def _turned(pixels: Pixels, orientation: int) -> Pixels:
    """The upright image: rows flipped, columns flipped, and then both axes swapped, each as EXIF's number requires."""
    if orientation in (3, 4, 6, 7):
        pixels = pixels[::-1]
    if orientation in (2, 3, 7, 8):
        pixels = pixels[:, ::-1]
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    return np.ascontiguousarray(pixels)


def _in_8_bits(image: Any, tags: Mapping[int, Any]) -> Any:
    """Pillow's image, converted to 8 bits.

    Pillow passes on the stored numbers of a deep gray TIFF, which may have 12 bits, or 0 for white.
    """
    if image.mode not in _DEEP_MODES:
        return image
    largest = 4095 if tags.get(_TIFF_BITS) in (12, (12,)) else 65535
    deep = np.asarray(image).astype(np.uint32)
    if tags.get(_TIFF_PHOTOMETRIC) == _MIN_IS_WHITE:
        deep = largest - deep
    return _image(((deep * 255 + largest // 2) // largest).astype(np.uint8))


def _in_srgb(image: Any, profile: bytes | None, tags: Mapping[int, Any]) -> tuple[Pixels, str | None]:
    """Pixels in gray or RGB, and a note if they are not exact.

    One strip of rows is converted at a time: Pillow's copies of a whole image would take several times its memory.
    """
    rows = max(1, _STRIP_PIXELS // image.width)
    if image.height <= rows:
        return _strip_in_srgb(_in_8_bits(image, tags), profile)
    pixels: Pixels = np.empty(0, np.uint8)
    for top in range(0, image.height, rows):
        part = image.crop((0, top, image.width, min(top + rows, image.height)))
        strip, note = _strip_in_srgb(_in_8_bits(part, tags), profile)
        if top == 0:
            pixels = np.empty((image.height, *strip.shape[1:]), np.uint8)
        pixels[top : top + rows] = strip
    return pixels, note


def _strip_in_srgb(image: Any, profile: bytes | None) -> tuple[Pixels, str | None]:
    """Transparency is dropped, as Keras and torchvision drop it."""
    gray = image.mode in ("1", "L", "LA")
    plain = "L" if gray else "CMYK" if image.mode == "CMYK" else "RGB"
    image = image if image.mode == plain else image.convert(plain)
    note = _CMYK_NOTE if plain == "CMYK" and not profile else None
    if profile:
        try:
            transform = _transform(profile, plain)
            image = image if transform is None else extra("PIL.ImageCms").applyTransform(image, transform)
        except (OSError, extra("PIL.ImageCms").PyCMSError):
            note = _PROFILE_NOTE
    wanted = "L" if gray else "RGB"
    return _pixels(image if image.mode == wanted else image.convert(wanted)), note


@functools.lru_cache(maxsize=64)
def _transform(profile: bytes, mode: str) -> Any:
    """The transform from that profile to sRGB; None for sRGB itself."""
    cms = extra("PIL.ImageCms")
    source = cms.ImageCmsProfile(io.BytesIO(profile))
    if mode == "RGB" and cms.getProfileDescription(source).strip() in _SRGB:
        return None
    return cms.buildTransform(source, cms.createProfile("sRGB"), mode, "RGB")


def _pixels(image: Any) -> Pixels:
    pixels: Pixels = np.asarray(image)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _image(pixels: Pixels) -> Any:
    """Pillow's image of these pixels."""
    return extra("PIL.Image").fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)
