"""Samples the threads of a data source: their place in the code, their use of a processor, and whether they decode.

A few hundred times a second, the innermost frames of all threads that started after the sampling began are examined.
Processor time is measured for the whole process, since nothing else runs.
"""

from __future__ import annotations

import contextvars
import linecache
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from abreast.doctor.facts import Reading
from abreast.keras_private import global_state
from abreast.threads import frames
from abreast.users_line import users_frame

_EVERY_SECONDS = 0.004
_DECODERS = (
    *("PIL", "cv2", "imageio", "tifffile", "skimage", "torchvision", "rawpy", "pydicom", "nibabel", "simplejpeg"),
    *("turbojpeg", "soundfile", "librosa", "audioread", "torchaudio", "av", "decord", "lz4", "zstandard", "blosc"),
)
_DECODING_FILES = ("gzip.py", "zipfile.py", "bz2.py", "lzma.py", "image_utils.py", "audio_dataset_utils.py")
_DECODING_CALLS = re.compile(
    r"\b(decode\w*|decompress\w*|imdecode|imread|Image\.open|load_img|img_to_array|frombytes|loads|inflate)\s*\("
)
_DECODING_DEPTH = 6  # innermost frames that are searched for one of these
# A thread whose innermost frame is in one of these files waits for work, or for room in a queue.
_WAITING_FILES = ("threading.py", "queue.py", "selectors.py", "connection.py", "popen_fork.py", "pool.py", "ahead.py")


@dataclass
class _StackCounts:
    """The samples of threads' stacks, counted by what they showed."""

    looks: int = 0
    active: int = 0
    decoding: int = 0
    places: Counter[tuple[str, bool]] = field(default_factory=Counter)


def watch(read: Callable[[], int], while_waiting: Callable[[], None]) -> Reading:
    """Run `read` in a thread of its own and sample its stacks. Raises whatever `read` raises.

    `read` returns the number of batches it read. `while_waiting` is called after each sample and may raise; the thread
    then runs on until its source ends.
    """
    keras_state = dict(global_state.GLOBAL_STATE_TRACKER.__dict__)  # Keras keeps this state per thread
    with frames() as found:
        before = set(found)
    outcome: list[int | BaseException] = []

    def run() -> None:
        global_state.GLOBAL_STATE_TRACKER.__dict__.update(keras_state)
        try:
            outcome.append(read())
        except BaseException as error:  # raised again below
            outcome.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name="abreast-doctor-source", daemon=True)
    seen, start, processor, mine = _StackCounts(), time.perf_counter(), time.process_time(), time.thread_time()
    thread.start()
    while thread.is_alive():
        thread.join(_EVERY_SECONDS)
        _look(seen, before)
        while_waiting()
    seconds = time.perf_counter() - start
    used = time.process_time() - processor - (time.thread_time() - mine)
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    place, own = seen.places.most_common(1)[0][0] if seen.places else ("", False)
    return Reading(
        num_batches=result,
        seconds=seconds / max(result, 1),
        busy_cores=used / seconds,
        active_threads=max(1.0, seen.active / max(seen.looks, 1)),
        decoding=seen.decoding / max(seen.active, 1),
        place=place,
        place_is_own=own,
    )


def _look(seen: _StackCounts, before: set[int]) -> None:
    seen.looks += 1
    with frames() as found:
        for identifier, frame in found.items():
            if identifier in before or os.path.basename(frame.f_code.co_filename) in _WAITING_FILES:
                continue
            own = users_frame(frame)
            code, line = (own or frame).f_code, (own or frame).f_lineno or 0
            seen.active += 1
            seen.decoding += _decodes(frame)
            seen.places[f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{line})", own is not None] += 1


def _decodes(frame: FrameType | None) -> bool:
    for _ in range(_DECODING_DEPTH):
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if os.path.basename(name) in _DECODING_FILES or any(f"{os.sep}{each}{os.sep}" in name for each in _DECODERS):
            return True
        # A C function has no frame of its own, but the line that calls it contains its name.
        if _DECODING_CALLS.search(linecache.getline(name, frame.f_lineno or 0)):
            return True
        frame = frame.f_back
    return False
