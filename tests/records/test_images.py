"""Image files of every kind become upright sRGB pixels, or are refused with the reason."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps

from abreast.errors import DataError
from abreast.records import pack
from abreast.records.decoding import images
from abreast.records.decoding.images import MAX_FILE_BYTES, Pixels, read_picture, shrink
from abreast.records.decoding.jpeg import num_scans
from abreast.records.format.index import MAX_PIXELS
from tests.records.pieces import file_of, image_of, photo

PHOTO = photo(24, 40)


def difference(one: Any, other: Any) -> int:
    return int(np.abs(np.asarray(one, np.int16) - np.asarray(other, np.int16)).max())


def saved(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def blank_png(height: int, width: int, depth: int, colours: int) -> bytes:
    """A PNG of zeros; `colours` is its colour type: 0 gray, 2 RGB, 6 RGBA."""
    channels = {0: 1, 2: 3, 6: 4}[colours]
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(1 + width * channels * depth // 8)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    packed = (struct.pack(">I", len(of)) + name + of + struct.pack(">I", zlib.crc32(name + of)) for name, of in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_files_keep_their_pixels(kind: str) -> None:
    assert difference(read_picture(file_of(PHOTO, kind)).pixels, PHOTO) == 0


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "I;16"])
def test_strips_give_the_pixels_of_the_whole(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.fromarray(np.arange(37 * 20, dtype=np.uint16).reshape(37, 20) * 80) if mode == "I;16" else None
    data = file_of(PHOTO, "PNG") if mode == "RGB" else saved(image or image_of(PHOTO).convert(mode))
    whole = read_picture(data).pixels
    monkeypatch.setattr(images, "_STRIP_PIXELS", 100)
    assert difference(read_picture(data).pixels, whole) == 0


@pytest.mark.full
@pytest.mark.parametrize(("depth", "colours"), [(16, 0), (16, 2), (16, 6), (8, 2)])
def test_the_largest_picture_takes_less_than_a_gibibyte(tmp_path: Path, depth: int, colours: int) -> None:
    side = int(MAX_PIXELS**0.5)
    (tmp_path / "a.png").write_bytes(blank_png(side, side, depth, colours))
    script = (
        "import sys; from abreast.records.decoding.images import read_picture; read_picture(open(sys.argv[1], 'rb').read());"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.png")]
    peak_kib = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak_kib < 2**20  # measured 324,000 to 672,000; 1,440,000 when whole pictures were converted


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_files_come_out_as_pillow_reads_them(kind: str) -> None:
    data = file_of(PHOTO, kind)
    assert difference(read_picture(data).pixels, Image.open(io.BytesIO(data)).convert("RGB")) == 0


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_by_its_exif_orientation(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = file_of(PHOTO, kind, exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    picture = read_picture(data)
    assert picture.pixels.shape[:2] == ((40, 24) if orientation >= 5 else (24, 40))
    assert difference(picture.pixels, expected) == 0
    assert (picture.orientation, picture.plain) == (orientation, orientation == 1)


def test_an_invalid_orientation_is_ignored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 77
    assert read_picture(file_of(PHOTO, "JPEG", exif=exif)).orientation == 1


def profile(name: str) -> bytes:
    if name == "sRGB":
        return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return swapped_profile()


def swapped_profile() -> bytes:
    """A matrix profile whose red is sRGB's green, and the other way round."""
    data = bytearray(profile("sRGB"))
    count = struct.unpack_from(">I", data, 128)[0]
    tags = {bytes(data[132 + 12 * i : 136 + 12 * i]): 132 + 12 * i for i in range(count)}
    red, green = tags[b"rXYZ"], tags[b"gXYZ"]
    data[red : red + 4], data[green : green + 4] = b"gXYZ", b"rXYZ"
    return bytes(data).replace("sRGB".encode("utf-16-be"), "odd ".encode("utf-16-be")).replace(b"sRGB", b"odd ")


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_colours_are_those_of_srgb(kind: str) -> None:
    flat = np.full((16, 16, 3), (200, 30, 60), np.uint8)
    as_it_is = read_picture(file_of(flat, kind, icc_profile=profile("sRGB"))).pixels
    swapped = read_picture(file_of(flat, kind, icc_profile=profile("odd"))).pixels
    assert difference(as_it_is, flat) <= 3
    assert difference(swapped[:, :, [1, 0, 2]], flat) <= 4
    assert not read_picture(file_of(flat, kind, icc_profile=profile("odd"))).plain


def linear_profile() -> bytes:
    """sRGB's colours without its curve, and with its name."""
    data = bytearray(profile("sRGB"))
    count = struct.unpack_from(">I", data, 128)[0]
    for i in range(count):
        name, offset, _ = struct.unpack_from(">4sII", data, 132 + 12 * i)
        if name in (b"rTRC", b"gTRC", b"bTRC"):
            data[offset : offset + 12] = b"curv" + bytes(8)
    return bytes(data).replace("built-in".encode("utf-16-be"), "linear  ".encode("utf-16-be"))


def test_a_linear_profile_is_not_taken_for_srgb_by_its_name() -> None:
    flat = np.full((16, 16, 3), 128, np.uint8)
    found = read_picture(file_of(flat, "PNG", icc_profile=linear_profile())).pixels
    assert difference(found, np.full_like(flat, 188)) <= 1  # 1.055 (128 / 255) ** (1 / 2.4) - 0.055 is 188 / 255


def test_a_profile_that_cannot_be_used_is_noted() -> None:
    picture = read_picture(file_of(PHOTO, "PNG", icc_profile=b"nonsense"))
    assert difference(picture.pixels, PHOTO) == 0
    assert picture.note == "its colour profile cannot be used: its colours are read as sRGB"


def test_cmyk_becomes_rgb_and_is_noted() -> None:
    data = file_of(image_of(PHOTO).convert("CMYK"), "JPEG", quality=100)
    picture = read_picture(data)
    assert difference(picture.pixels, PHOTO) < 40
    assert picture.note == "CMYK without a colour profile: its colours are approximate"
    assert picture.pixels.shape[2] == 3 and not picture.plain


def test_sixteen_bits_become_eight() -> None:
    deep = (np.arange(256, dtype=np.uint16).reshape(16, 16) * 257).astype(np.uint16)
    for kind in ("PNG", "TIFF"):
        data = file_of(Image.fromarray(deep), kind)
        assert (read_picture(data).pixels[:, :, 0] == np.arange(256).reshape(16, 16)).all()


@pytest.mark.parametrize("mode", ["P", "1", "L", "LA", "RGBA"])
def test_other_modes_become_gray_or_rgb(mode: str) -> None:
    image = image_of(PHOTO).convert(mode)
    picture = read_picture(file_of(image, "PNG"))
    plain = "L" if mode in ("1", "L", "LA") else "RGB"
    assert difference(picture.pixels.squeeze(), image.convert(plain)) == 0
    assert picture.plain == (mode == "L")


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_animated_images_are_refused(kind: str) -> None:
    frames = [image_of(photo(8, 8, seed=seed)) for seed in range(3)]
    data = file_of(frames[0], kind, save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match=f"refused: an animated or several-page {kind}"):
        read_picture(data)


def gif(num_frames: int) -> bytes:
    frame = b"," + struct.pack("<4HB", 0, 0, 2, 2, 0) + b"\x02\x02\x04\x05\x00"
    return b"GIF89a" + struct.pack("<2H3B", 2, 2, 0x80, 0, 0) + bytes(6) + frame * num_frames + b";"


def tiff(tags: dict[int, int], data: bytes = b"", num_pages: int = 1) -> bytes:
    """Pages of which each has these tags, and that share their data."""
    file = bytearray(struct.pack("<2sHI", b"II", 42, 8 + len(data)) + data)
    for page in range(num_pages):
        entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted({**tags, 273: 8}.items())]
        end = len(file) + 2 + 12 * len(entries) + 4
        file += (
            struct.pack("<H", len(entries)) + b"".join(entries) + struct.pack("<I", end if page + 1 < num_pages else 0)
        )
    return bytes(file)


@pytest.mark.parametrize("kind", ["GIF", "TIFF"])
def test_many_images_in_a_file_are_not_counted(kind: str) -> None:
    """Counting takes 3 seconds for this GIF; for this TIFF 20, and with the square of the pages."""
    one = {256: 1, 257: 1, 258: 8, 262: 1}
    data = gif(1_000_000) if kind == "GIF" else tiff(one, num_pages=30_000)
    began = time.process_time()
    with pytest.raises(DataError, match="refused: an animated or several-page"):
        read_picture(data)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(("bits", "white_is_zero"), [(12, False), (16, False), (16, True)])
def test_a_deep_gray_tiff_has_its_range(bits: int, white_is_zero: bool) -> None:
    largest = 2**bits - 1
    numbers = [0, largest // 5, largest * 3 // 5, largest]
    data = b"".join(number.to_bytes(2, "little") for number in numbers)
    if bits == 12:
        data = int("".join(f"{number:012b}" for number in numbers), 2).to_bytes(6, "big")
    size = {256: 4, 257: 1, 258: bits, 277: 1, 278: 1, 279: len(data)}
    found = read_picture(tiff({**size, 262: 0 if white_is_zero else 1}, data)).pixels
    expected = [0, 51, 153, 255]
    assert found.ravel().tolist() == ([255 - each for each in expected] if white_is_zero else expected)


def test_a_still_gif_is_an_image() -> None:
    assert read_picture(file_of(PHOTO, "GIF")).pixels.shape == PHOTO.shape


@pytest.mark.parametrize("mode", ["I", "F"])
def test_numbers_without_a_range_are_refused(mode: str) -> None:
    with pytest.raises(DataError, match=f"of type {mode}, whose range is unknown"):
        read_picture(file_of(Image.new(mode, (4, 4)), "TIFF"))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims this many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("side", "why"),
    [
        (10_000, "refused: 10000 x 10000 pixels are more than 89478485"),
        (60_000, r"\(3600000000 pixels\) exceeds limit of 178956970 pixels"),
        (2**31 - 1, r"\(4611686014132420609 pixels\) exceeds limit of 178956970 pixels"),
    ],
)
def test_a_bomb_is_refused_before_it_is_decoded(side: int, why: str) -> None:
    with pytest.raises(DataError, match=why):
        read_picture(bomb(side, side))


@pytest.mark.parametrize("data", [b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"])
def test_a_file_that_is_not_an_image_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="cannot read the image"):
        read_picture(data)


def test_a_cut_off_jpeg_is_not_called_another_kind_of_file() -> None:
    data = file_of(photo(40, 60), "JPEG")
    for end in (5, len(data) // 2):
        with pytest.raises(DataError) as caught:
            read_picture(data[:end])
        assert "not an image in one of" not in caught.value.message
    with pytest.raises(DataError, match="begins like an image file, and is damaged or cut off"):
        read_picture(data[:5])
    with pytest.raises(DataError, match="not an image in one of JPEG"):
        read_picture(b"a text")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"])
def test_every_shorter_file_is_refused_or_whole(kind: str) -> None:
    data = file_of(PHOTO, kind)
    whole = read_picture(data).pixels
    for size in range(0, len(data), 1 + len(data) // 100):
        with contextlib.suppress(DataError):
            assert difference(read_picture(data[:size]).pixels, whole) == 0


FILES = [file_of(PHOTO, kind) for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), min_size=1, max_size=8))
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_refused_or_read(data: bytes, changes: list[tuple[int, int]]) -> None:
    broken = bytearray(data)
    for place, value in changes:
        broken[place % len(broken)] = value
    with contextlib.suppress(DataError):
        assert read_picture(bytes(broken)).pixels.dtype == np.uint8


@pytest.mark.parametrize(("height", "width", "size"), [(48, 80, (12, 20)), (90, 30, (36, 12)), (500, 400, (15, 12))])
def test_a_larger_image_gets_the_short_side(height: int, width: int, size: tuple[int, int]) -> None:
    for kind in ("JPEG", "PNG"):
        assert read_picture(file_of(photo(height, width), kind), 12).pixels.shape[:2] == size


def test_a_smaller_image_stays() -> None:
    assert shrink(PHOTO, 24) is PHOTO and shrink(PHOTO, 100) is PHOTO


def test_scaling_while_decoding_is_near_to_scaling_afterwards() -> None:
    data = file_of(photo(800, 1000), "JPEG", quality=95)
    whole = read_picture(data).pixels
    fast, exact = read_picture(data, 100).pixels, shrink(whole, 100)
    assert fast.shape == exact.shape == (100, 125, 3)
    assert np.abs(fast.astype(int) - exact).mean() < 1


def test_shrinking_is_near_to_pillows() -> None:
    pixels = photo(300, 400)
    theirs = np.asarray(image_of(pixels).resize((160, 120), Image.Resampling.BOX), int)
    difference = np.abs(shrink(pixels, 120) - theirs)
    assert difference.mean() < 1.5 and difference.max() < 20  # measured 1.2: a whole factor there, parts of pixels here


def test_gray_stays_gray() -> None:
    gray: Pixels = photo(20, 30, channels=1)
    assert read_picture(file_of(gray, "JPEG", quality=95), 10).pixels.shape == (10, 15, 1)


@pytest.mark.parametrize("size_bytes", [MAX_FILE_BYTES + 1, 2**40])
def test_a_giant_file_is_refused_before_it_is_read(tmp_path: Path, size_bytes: int) -> None:
    path = tmp_path / "giant.jpg"
    path.touch()
    os.truncate(path, size_bytes)  # a hole: it takes no room on the disk
    with pytest.raises(DataError, match=f"refused: a file of {size_bytes} bytes, more than 536870910"):
        pack([path], tmp_path / "out")


def scans(count: int) -> bytes:
    """A progressive JPEG whose last scan is repeated this many times."""
    data = file_of(photo(64, 64), "JPEG", progressive=True)
    begin = data.rindex(b"\xff\xda")
    return data[:-2] + data[begin:-2] * count + data[-2:]


def test_scans_are_counted_as_a_decoder_finds_them() -> None:
    ordinary = num_scans(scans(0), 1000)
    assert ordinary == 10  # libjpeg's own script for three components
    assert num_scans(scans(7), 1000) == 17
    assert num_scans(scans(500), 100) == 101
    assert num_scans(file_of(PHOTO, "JPEG"), 1000) == 1
    thumbnail = Image.Exif()
    thumbnail[0x9286] = "x"
    assert num_scans(file_of(PHOTO, "JPEG", exif=thumbnail, comment=b"\xff\xda" * 300), 1000) == 1


def test_a_jpeg_of_many_scans_is_refused() -> None:
    assert read_picture(scans(0)).pixels.shape == (64, 64, 3)
    with pytest.raises(DataError, match="refused: a JPEG of more than 100 scans"):
        read_picture(scans(200))


def test_scans_after_an_end_marker_in_a_comment_are_counted() -> None:
    data = scans(0)
    begin = data.rindex(b"\xff\xda")
    comment = b"\xff\xfe\x00\x04\xff\xd9"
    assert num_scans(data[:begin] + comment + data[begin:-2] * 300 + data[-2:], 1000) == 309


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8), st.integers(0, 3000))
def test_counting_scans_of_damaged_files_ends(changes: list[tuple[int, int]], size: int) -> None:
    broken = bytearray(scans(3))
    for place, value in changes:
        broken[place % len(broken)] = value
    assert 0 <= num_scans(bytes(broken[: max(1, size)]), 50) <= 51
