"""The headers and restart markers of a JPEG, read without decoding it.

Safe for any bytes: each length is checked before its use, and no header decides how much memory is allocated. Source:
ITU-T T.81, annexes A and B.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError

SOI, EOI, SOS, DRI = 0xD8, 0xD9, 0xDA, 0xDD
RST = range(0xD0, 0xD8)
_TABLES = frozenset({0xDB, 0xC4, DRI, 0xE0, 0xEE})  # needed to decode: quantization, Huffman, restarts, JFIF, Adobe
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset({0x00, 0x01, SOI, EOI, *RST})
_SEQUENTIAL_HUFFMAN = (0xC0, 0xC1)
_MAX_SEGMENTS = 10_000

_MARKER = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]", re.DOTALL)  # except stuffed bytes and restarts, within coded data

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class JpegHeader:
    """A parsed header. Sizes are as stored, before EXIF's turn; those of an MCU, a minimum coded unit, are in pixels.

    `tables` are the segments that a decoder needs before `frame` and `scan`, which are the other two.
    """

    width: int
    height: int
    num_components: int
    mcu_width: int
    mcu_height: int
    restart_interval: int  # in MCUs; 0 for none
    sequential: bool  # one scan, Huffman coded, not progressive: can be cut
    tables: bytes
    frame: bytes
    scan: bytes
    scan_begin: int  # offset of the coded data, in bytes

    @property
    def mcus_per_row(self) -> int:
        return -(-self.width // self.mcu_width)

    @property
    def mcu_rows(self) -> int:
        return -(-self.height // self.mcu_height)


def read_header(data: Bytes) -> JpegHeader:
    """The header, parsed up to the first scan. Raises `DataError` for data that is not a valid JPEG."""
    tables: list[bytes] = []
    frame, interval = b"", 0
    if bytes(data[:2]) != bytes([0xFF, SOI]):
        raise DataError("this is not a JPEG: it does not begin with FF D8")
    for marker, begin, end in _segments(data):
        if marker in _FRAMES:
            if frame:
                raise DataError(f"this JPEG has a second frame at byte {begin}")
            frame = bytes(data[begin:end])
        elif marker == SOS:
            if not frame:
                raise DataError(f"this JPEG has a scan without a frame, at byte {begin}")
            return _header(frame, bytes(data[begin:end]), b"".join(tables), interval, end)
        elif marker in _TABLES:
            tables.append(bytes(data[begin:end]))
            if marker == DRI:
                interval = _restart_interval(data, begin, end)
    raise DataError("this JPEG ends before its image begins")


class HeaderCache:
    """`read_header` with a cache: images of one packer often have the same bytes before their scan."""

    def __init__(self, max_headers: int = 1024) -> None:
        self._max_headers = max_headers
        self._lengths: list[int] = []
        self._headers: dict[bytes, JpegHeader] = {}

    def read(self, data: Bytes) -> JpegHeader:
        """The header of `data`, which depends only on the bytes before the scan. Raises `DataError`."""
        for length in self._lengths:
            header = self._headers.get(bytes(data[:length]))
            if header is not None:
                return header
        header = read_header(data)
        if len(self._headers) >= self._max_headers:
            self._headers.clear()
            self._lengths.clear()
        if header.scan_begin not in self._lengths:
            self._lengths = [header.scan_begin, *self._lengths[:3]]
        self._headers[bytes(data[: header.scan_begin])] = header
        return header


def _segments(data: Bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, begin and end of each segment after SOI. The marker's two bytes are part of the segment."""
    place, count = 2, 0
    while place + 4 <= len(data):
        count += 1
        if count > _MAX_SEGMENTS:
            raise DataError(f"this JPEG has more than {_MAX_SEGMENTS} segments before its image")
        if data[place] != 0xFF:
            raise DataError(f"this JPEG has no marker at byte {place}")
        if data[place + 1] == 0xFF:  # a fill byte
            place += 1
            continue
        marker, size = data[place + 1], (data[place + 2] << 8) | data[place + 3]
        if marker in _WITHOUT_LENGTH or size < 2 or place + 2 + size > len(data):
            raise DataError(f"this JPEG is damaged at byte {place}: a segment {marker:02X} of {size} bytes")
        yield marker, place, place + 2 + size
        place += 2 + size


def _restart_interval(data: Bytes, begin: int, end: int) -> int:
    if end - begin != 6:
        raise DataError(f"this JPEG is damaged at byte {begin}: a restart interval of {end - begin} bytes")
    return (data[begin + 4] << 8) | data[begin + 5]


def _header(frame: bytes, scan: bytes, tables: bytes, interval: int, scan_begin: int) -> JpegHeader:
    if len(frame) < 10 or len(frame) != 10 + 3 * frame[9]:
        raise DataError(f"this JPEG has a frame header of {len(frame)} bytes")
    height, width, count = struct.unpack_from(">HHB", frame, 5)
    if not (height and width and 1 <= count <= 4):
        raise DataError(f"this JPEG claims {width} x {height} pixels of {count} components")
    factors = [(frame[place] >> 4, frame[place] & 15) for place in range(11, len(frame), 3)]
    if not all(1 <= across <= 4 and 1 <= down <= 4 for across, down in factors):
        raise DataError(f"this JPEG has the sampling factors {factors}")
    across, down = map(max, zip(*factors, strict=True))
    if count == 1:  # a single component is not interleaved: its MCU is one block, whatever its factors (A.2.2)
        across = down = 1
    return JpegHeader(
        width=width,
        height=height,
        num_components=count,
        mcu_width=8 * across,
        mcu_height=8 * down,
        restart_interval=interval,
        sequential=frame[1] in _SEQUENTIAL_HUFFMAN and frame[4] == 8 and _is_whole_scan(scan, count),
        tables=tables,
        frame=frame,
        scan=scan,
        scan_begin=scan_begin,
    )


def _is_whole_scan(scan: bytes, num_components: int) -> bool:
    """True if this scan has all components, with all of their coefficients."""
    return len(scan) == 8 + 2 * num_components and scan[4] == num_components and scan[-3:] == b"\x00\x3f\x00"


def num_scans(data: Bytes, most: int) -> int:
    """The number of scans that a decoder finds up to the end of the image, counted up to `most + 1`.

    Like libjpeg, it skips bytes that are not a marker, and ends after a first scan that has all components.
    """
    place, count, components, progressive = 2, 0, 0, False
    while count <= most and (found := _MARKER.search(data, place)) is not None:
        marker, place = data[found.end() - 1], found.end()
        if marker == EOI:
            break
        if marker in _WITHOUT_LENGTH:
            continue
        if marker in _FRAMES:
            progressive = marker not in _SEQUENTIAL_HUFFMAN
            components = data[place + 7] if place + 7 < len(data) else 0
        elif marker == SOS:
            count += 1
            if not progressive and place + 2 < len(data) and data[place + 2] == components:
                break
        place += int.from_bytes(data[place : place + 2], "big")
    return count


def restart_lengths(data: Bytes, header: JpegHeader | None = None) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The length in bytes of each segment of the scan, including the marker after it; EOI follows the last segment.

    Empty for an image that cannot be cut: it is progressive, has no restart markers, or has too many or too few.
    """
    header = header or read_header(data)
    nothing = np.empty(0, np.uint32)
    if not header.sequential or not header.restart_interval:
        return nothing
    ends = _marker_ends(data, header.scan_begin)
    num_mcus = header.mcus_per_row * header.mcu_rows
    if len(ends) != -(-num_mcus // header.restart_interval):
        return nothing
    return np.diff(ends, prepend=0).astype(np.uint32)


def _marker_ends(data: Bytes, begin: int) -> npt.NDArray[np.int64]:
    """The ends of the markers RST0, RST1, ... and of the EOI after them, from `begin`; empty for any other markers."""
    nothing = np.empty(0, np.int64)
    scan = np.frombuffer(data, np.uint8)[begin:]
    places = np.flatnonzero(scan[:-1] == 0xFF)
    codes = scan[places + 1]
    marked = codes != 0
    places, codes = places[marked], codes[marked]
    last = np.flatnonzero((codes < RST.start) | (codes >= RST.stop))[:1]
    if not last.size or codes[last[0]] != EOI:
        return nothing
    num_restarts = int(last[0])
    if (codes[:num_restarts] != RST.start + np.arange(num_restarts) % len(RST)).any():
        return nothing
    ends: npt.NDArray[np.int64] = places[: num_restarts + 1] + 2
    return ends
