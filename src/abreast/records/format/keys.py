"""Keys, the names of samples, which are safe as file names on every system and in a tar.

A key consists of parts between slashes and has no dot. So it cannot lead out of a folder, and the first dot of a file's
name ends the key, as WebDataset requires.
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
# Names that Windows reserves for devices, with or without an extension.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)


def printable(text: str) -> str:
    """The text on one line; control characters and characters that UTF-8 cannot hold are replaced by escapes."""
    known = text.encode("utf-8", "backslashreplace").decode()
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), known)


def is_key(text: str) -> bool:
    """True if `text` is a valid name of a sample."""
    if not _KEY.fullmatch(text) or any(_DEVICES.fullmatch(part) for part in text.split("/")):
        return False
    try:
        return len(text.encode()) <= MAX_BYTES
    except UnicodeEncodeError:
        return False


def checked_key(text: str) -> str:
    """The key itself. Raises `DataError` for an invalid one."""
    if not is_key(text):
        hint = f'use parts between slashes without a dot, a space or any of \\ : * ? " < > |, at most {MAX_BYTES} bytes'
        raise DataError(f"a sample cannot have the key {text!r:.300}", hint)
    return text


class KeyMaker:
    """Makes keys from any paths: unsafe characters become `_`, and a key that exists already gets a number."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def key(self, path: str) -> str:
        """A key that this maker has not returned before. The same calls return the same keys."""
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
    """The text, short enough that a number can follow. A long text is cut, and ends in a digest of all of it."""
    data = text.encode()
    room = MAX_BYTES - 12
    if len(data) <= room:
        return text
    digest = hashlib.sha256(data).hexdigest()[:16]
    start = data[: room - 17].decode("utf-8", "ignore").rstrip("/")
    return f"{start}_{digest}"
