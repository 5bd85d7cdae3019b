"""Warnings that point at the user's line: the innermost one that is no part of a library. Imports nothing of abreast."""

from __future__ import annotations

import sys
import sysconfig
import threading
import warnings
from pathlib import Path
from types import FrameType

_LIBRARIES = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen ")
_INSTALLED = ("site-packages", "dist-packages")  # of this environment and of the one below it


def warn(message: str) -> None:
    """Warn as from the user's line; in a thread that libraries began, as from the line at which the main thread is."""
    here = sys._getframe(1)
    frame = _users(here) or _users(sys._current_frames().get(threading.main_thread().ident or 0)) or here
    names, file = frame.f_globals, frame.f_code.co_filename
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, file, frame.f_lineno, names.get("__name__"), registry)


def _users(frame: FrameType | None) -> FrameType | None:
    while frame is not None and _is_of_a_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_of_a_library(file: str) -> bool:
    if file.startswith(_LIBRARIES) or any(folder in _INSTALLED for folder in Path(file).parts):
        return True
    # AutoGraph runs the user's functions as files of its own.
    return "__autograph_generated_file" in file
