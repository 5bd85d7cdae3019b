"""The user's line, to which warnings point: the innermost line that is not part of a library."""

from __future__ import annotations

import sys
import sysconfig
import threading
import warnings
from functools import lru_cache
from pathlib import Path
from types import FrameType

from abreast.stderr import speaks_for_all, tell

_LIBRARIES = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen ")
_INSTALLED = ("site-packages", "dist-packages")  # of this environment, and of the one it is based on


def warn(message: str, at_least_tell: bool = False) -> None:
    """Warn at the user's line; in a thread that a library started, at the user's line in the main thread.

    In a job of several processes, rank 0 warns. `at_least_tell`: print the message to stderr if a filter hides the warning.
    """
    if not speaks_for_all():
        return
    here = sys._getframe(1)
    frame = users_frame(here) or users_frame(sys._current_frames().get(threading.main_thread().ident or 0)) or here
    names, file = frame.f_globals, frame.f_code.co_filename
    if at_least_tell and _is_hidden(message, names.get("__name__") or "<unknown>", frame.f_lineno):
        tell(message)
        return
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, file, frame.f_lineno, names.get("__name__"), registry)


def _is_hidden(message: str, module: str, line: int) -> bool:
    """Whether Python's filters ignore a warning at this line."""
    for action, text, category, of_module, of_line in warnings.filters:
        if (
            issubclass(UserWarning, category)
            and (text is None or text.match(message))
            and (of_module is None or of_module.match(module))
            and of_line in (0, line)
        ):
            return action == "ignore"
    return False


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code, from `frame` on; None if there is only library code."""
    while frame is not None and _is_of_a_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@lru_cache(maxsize=4096)
def _is_of_a_library(file: str) -> bool:
    if file.startswith(_LIBRARIES) or any(folder in _INSTALLED for folder in Path(file).parts):
        return True
    # AutoGraph runs the user's functions from files that it generates.
    return "__autograph_generated_file" in file
