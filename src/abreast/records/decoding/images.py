"""Any image file to upright sRGB pixels of 8 bits, in one channel or three, or a refusal that says why.

A closed list of formats, limits on bytes, pixels and scans that are checked before anything is decoded, no animation. Imports
`index`, `jpeg`, `extras` and `errors`; Pillow, simplejpeg and OpenCV when an image is read.
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

# Pillow's names. What runs another program or a language of its own (EPS, WMF, PDF) is left out.
ENCODING_OF = {
    "JPEG": "jpg",
    "MPO": "jpg",  # several JPEGs in one file, as phones write them; the first is the picture
    "PNG": "png",
    "WEBP": "webp",
    "BMP": "bmp",
    "GIF": "gif",
    "TIFF": "tiff",
    "PPM": "ppm",
}
_OPENED = tuple(name for name in ENCODING_OF if name != "MPO")  # which is opened as a JPEG
_ORIENTATION = 0x0112
_DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N")
_TIFF_BITS, _TIFF_PHOTOMETRIC, _MIN_IS_WHITE = 258, 262, 0
_CMYK_NOTE = "CMYK without a colour profile: its colours are approximate"
# Descriptions of profiles that are sRGB as the standard has it, of HP, lcms, the ICC and GIMP. Others that have the word in
# their name are not, as linear ones.
_SRGB = frozenset(
    {"sRGB IEC61966-2.1", "sRGB IEC61966-2-1 black scaled", "sRGB built-in", "sRGB2014", "GIMP built-in sRGB"}
)
_PROFILE_NOTE = "its colour profile cannot be used: taken as sRGB"

# As large as an image can be without compression: 16 bits in three channels.
MAX_FILE_BYTES = 6 * MAX_PIXELS
_STRIP_PIXELS = 1 << 20
# Each scan of a progressive JPEG is a pass over all of its pixels; encoders write about ten.
MAX_SCANS = 100
_BEGINNINGS = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8|RIFF....WEBP|BM|II\*\0|MM\0\*|P[1-6]\s", re.DOTALL)

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Picture:
    """Upright pixels, height by width by 1 or 3, and what their file was.

    `encoding` is a word of `format.ENCODINGS`. `plain` means that a decoder's pixels need no turning and no other colours.
    `note` says what could not be done exactly.
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
        raise DataError(f"refused: a file of {size_bytes} bytes, and {limit} are the most")


def looks_like_image(data: bytes) -> bool:
    """Whether bytes begin as a file of an image does."""
    return _BEGINNINGS.match(data) is not None


def check_scans(data: Bytes) -> None:
    """Raise `DataError` for a JPEG that makes a decoder go over its pixels again and again."""
    scans = num_scans(data, MAX_SCANS)
    if scans > MAX_SCANS:
        raise DataError(f"refused: a JPEG of more than {MAX_SCANS} scans", "write it anew with any image program")


def read_picture(data: bytes, short_side: int | None = None) -> Picture:
    """Decode; an image whose short side is longer than `short_side` pixels is made smaller. Raises `DataError`."""
    try:
        return _picture(data, short_side)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # decoders raise anything over damaged bytes
        what = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, extra("PIL").UnidentifiedImageError):
            what = f"not an image in one of {', '.join(_OPENED)}"
        raise DataError(f"cannot read the image: {what:.200}") from error


def shrink(pixels: Pixels, short_side: int | None) -> Pixels:
    """The image with that short side; a smaller one stays as it is."""
    return resized(pixels, *shrunk_size(pixels.shape[0], pixels.shape[1], short_side))


def shrunk_size(height: int, width: int, short_side: int | None) -> tuple[int, int]:
    """Height and width with that short side, where it is longer."""
    short = min(height, width)
    if short_side is None or short <= short_side:
        return height, width
    return max(1, round(height * short_side / short)), max(1, round(width * short_side / short))


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """A smaller image, each pixel the mean of what it covers; OpenCV's, which does not hold Python's lock."""
    if pixels.shape[:2] == (height, width):
        return pixels
    smaller: Pixels = extra("cv2").resize(pixels, (width, height), interpolation=extra("cv2").INTER_AREA)
    return smaller.reshape(height, width, pixels.shape[2])


def _open(data: bytes) -> Any:
    """Pillow's image, of which the header is read; refuses what is too large or moves."""
    image = extra("PIL.Image").open(io.BytesIO(data), formats=_OPENED)
    if image.width * image.height > MAX_PIXELS:
        raise DataError(f"refused: {image.width} x {image.height} pixels are more than {MAX_PIXELS}")
    # Not by their number: a file of a few hundred megabytes may have millions, and Pillow goes through all to count them.
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise DataError(f"refused: an animated or several-page {image.format}")
    if image.mode in ("I", "F"):
        raise DataError(f"refused: {image.format} with pixels of type {image.mode}, whose range is not known")
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
    """No larger than needed for twice what is wanted: libjpeg decodes to n/8 of the size by itself."""
    at_least = (0, 0)
    if short_side is not None and min(header.height, header.width) > 2 * short_side:
        at_least = shrunk_size(header.height, header.width, 2 * short_side)
    return decode_jpeg(data, "GRAY" if header.mode == "L" else "RGB", *at_least)


def decode_jpeg(data: Bytes, colours: str, min_height: int = 0, min_width: int = 0) -> Pixels:
    """Pixels of a JPEG of which the size was checked, height by width by channels. Raises `ValueError`."""
    pixels: Pixels = extra("simplejpeg").decode_jpeg(data, colours, min_height=min_height, min_width=min_width)
    return pixels


def _turned(pixels: Pixels, orientation: int) -> Pixels:
    """Upright: rows flipped, columns flipped, and then both changed for one another, as EXIF's number wants."""
    if orientation in (3, 4, 6, 7):
        pixels = pixels[::-1]
    if orientation in (2, 3, 7, 8):
        pixels = pixels[:, ::-1]
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    return np.ascontiguousarray(pixels)


def _in_8_bits(image: Any, tags: Mapping[int, Any]) -> Any:
    """Pillow's image with 8 bits.

    It has the numbers of a deep gray TIFF as they stand there, which may be of 12 bits, or count from white.
    """
    if image.mode not in _DEEP_MODES:
        return image
    largest = 4095 if tags.get(_TIFF_BITS) in (12, (12,)) else 65535
    deep = np.asarray(image).astype(np.uint32)
    if tags.get(_TIFF_PHOTOMETRIC) == _MIN_IS_WHITE:
        deep = largest - deep
    return _image(((deep * 255 + largest // 2) // largest).astype(np.uint8))


def _in_srgb(image: Any, profile: bytes | None, tags: Mapping[int, Any]) -> tuple[Pixels, str | None]:
    """Pixels in gray or RGB, and what could not be done.

    A strip of rows at a time: Pillow's copies of a whole image would take several times its memory.
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
    """From that profile to sRGB; None for sRGB itself."""
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
