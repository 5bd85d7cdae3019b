"""Names of samples: what is safe as a file's name on every system, and in a tar.

A key has parts between slashes, and no dot, so that it cannot lead out of a folder and a file's first dot ends it, as
WebDataset wants. Imports `errors`.
"""

from __future__ import annotations

import hashlib
import re

from abreast.errors import DataError

MAX_BYTES = 200
_PART = r"[^/\\.:*?\"<>|\x00-\x20\x7f]+"
_KEY = re.compile(rf"{_PART}(?:/{_PART})*")
_UNSAFE = re.compile(r"[\\.:*?\"<>|\x00-\x20\x7f]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Names that Windows keeps for devices, with or without an extension.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)


def printable(text: str) -> str:
    """The text on one line, with what UTF-8 cannot hold and what a terminal would obey written out in escapes."""
    known = text.encode("utf-8", "backslashreplace").decode()
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), known)


def is_key(text: str) -> bool:
    """Whether `text` may name a sample."""
    if not _KEY.fullmatch(text) or any(_DEVICES.fullmatch(part) for part in text.split("/")):
        return False
    try:
        return len(text.encode()) <= MAX_BYTES
    except UnicodeEncodeError:
        return False


def checked_key(text: str) -> str:
    """The key itself. Raises `DataError` when it may not name a sample."""
    if not is_key(text):
        hint = f'parts between slashes, without a dot, space or any of \\ : * ? " < > |, {MAX_BYTES} bytes in all'
        raise DataError(f"a sample cannot have the key {text!r:.300}", hint)
    return text


class KeyMaker:
    """Keys out of any paths: what is not safe becomes `_`, and what was given before gets a number."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def key(self, path: str) -> str:
        """A key that this maker has not given; the same for the same calls."""
        parts = [_safe_part(part) for part in path.split("/") if part not in ("", ".", "..")]
        plain = _shortened("/".join(parts) or "_")
        number = self._given.get(plain, 0)
        key = plain
        while key in self._given:
            number += 1
            key = f"{plain}~{number}"
        self._given[plain] = number
        self._given[key] = self._given.get(key, 0)
        return key


def _safe_part(part: str) -> str:
    text = _UNSAFE.sub("_", part.encode("utf-8", "replace").decode())
    return f"{text}_" if _DEVICES.fullmatch(text) else text


def _shortened(text: str) -> str:
    """At most so many bytes that a number fits behind; a long one ends in a digest of all of it."""
    data = text.encode()
    room = MAX_BYTES - 12
    if len(data) <= room:
        return text
    digest = hashlib.sha256(data).hexdigest()[:16]
    start = data[: room - 17].decode("utf-8", "ignore").rstrip("/")
    return f"{start}_{digest}"
