"""`abreast pack`: options in, a summary out, with progress on stderr."""

from __future__ import annotations

import argparse
import sys

from abreast.records.packing import packer
from abreast.records.packing.progress import Progress
from abreast.stdout import say

_SETTINGS = (
    *("size", "quality", "storage", "threads", "shard_mb", "shuffle_seed", "split", "split_seed"),
    *("image", "columns", "on_error"),
)


def run(options: argparse.Namespace) -> int:
    settings = {name: getattr(options, name) for name in _SETTINGS}
    line = ProgressLine()
    try:
        summary = packer.pack(options.source, options.dest, **settings, progress=line.show)
    except KeyboardInterrupt:
        line.end()
        print(
            "abreast: stopped\nhint: run the same command again to continue after the last whole shard", file=sys.stderr
        )
        return 130
    finally:
        line.end()
    say(str(summary))
    return 0


class ProgressLine:
    """Progress on stderr: one line that changes on a terminal, and elsewhere a new line every `every_seconds`."""

    def __init__(self, every_seconds: float = 10.0) -> None:
        self._terminal = sys.stderr.isatty()
        self._every_seconds = every_seconds
        self._shown_seconds = 0.0
        self._width = 0

    def show(self, progress: Progress) -> None:
        text = str(progress)
        if self._terminal:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(text)
        elif progress.seconds - self._shown_seconds >= self._every_seconds:
            self._shown_seconds = progress.seconds
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._width:
            print(file=sys.stderr)
        self._width = 0
