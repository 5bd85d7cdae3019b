"""`abreast pack`: its options; a summary on stdout, progress on stderr. Loads no NumPy before it runs."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from abreast.errors import DataError
from abreast.options import add_option
from abreast.stderr import StatusLine, tell
from abreast.stdout import say

if TYPE_CHECKING:
    from abreast.records.packing.progress import Progress

_SETTINGS = (
    *("size", "quality", "storage", "threads", "shard_mb", "shuffle_seed", "split", "split_seed", "split_by"),
    *("image", "columns", "label", "label_separator", "class_names", "on_error", "dry_run"),
)

# Options that mean nothing without another one, and that one with its value.
_BESIDE = {"label_separator": "label NAMES", "class_names": "label NAMES", "split_by": "split PARTS"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of images, a folder with a folder per class, or a folder of shards; a list, a CSV or Parquet "
        "table, or a shard: a tar in WebDataset's layout, TFRecord, RecordIO",
    )
    parser.add_argument(
        "dest", metavar="DEST", help="the folder to make; the same command continues a packing that was stopped"
    )
    parser.add_argument(
        "--size", metavar="N", type=int, help="shrink larger images to a short side of N pixels (default: keep)"
    )
    parser.add_argument("--quality", metavar="N", type=int, help="JPEG quality, 1 to 100 (default: 95)")
    parser.add_argument(
        "--storage",
        choices=("jpeg", "raw", "png", "keep"),
        default="jpeg",
        help="jpeg with restart markers, raw pixels, png, or the files' own bytes (default: jpeg)",
    )
    parser.add_argument(
        "--threads", metavar="N", type=int, help="number of threads (default: one per core that this process may use)"
    )
    add_option(
        parser,
        "--shard-mb",
        metavar="MB",
        type=float,
        default=1000,
        help="largest size of a shard, in 10^6 bytes (default: 1000)",
    )
    add_option(parser, "--shuffle-seed", metavar="N", type=int, help="pack in a random order, drawn with this seed")
    add_option(
        parser,
        "--split",
        metavar="PARTS",
        help="pack parts into folders of DEST: train=0.9,val=0.1 draws them, train,val are folders or shards of SOURCE",
    )
    add_option(parser, "--split-seed", metavar="N", type=int, default=0, help="seed that draws the parts (default: 0)")
    add_option(
        parser, "--split-by", metavar="NAME", help="column of classes, as label: each class has its share in each part"
    )
    add_option(
        parser,
        "--image",
        metavar="NAME",
        help="column, feature or extension that holds the images, if it cannot be found automatically",
    )
    add_option(
        parser,
        "--columns",
        metavar="NAMES",
        help="columns to keep, separated by commas (default: all); NEW=OLD renames one",
    )
    add_option(
        parser,
        "--label",
        metavar="NAMES",
        action="append",
        help="column that labels the images; words become class numbers, several columns (commas, or repeated) a vector",
    )
    add_option(
        parser,
        "--label-separator",
        metavar="TEXT",
        help="text between the tags in a cell of the label, which become a vector",
    )
    add_option(
        parser,
        "--class-names",
        metavar="PATH",
        help="names of the classes, in order: a text file with one on each line, or a packed data set (default: sorted words)",
    )
    add_option(
        parser,
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="stop at an image that cannot be packed, or skip it and list it in DEST.skipped.txt (default: stop)",
    )
    add_option(
        parser, "--dry-run", action="store_true", help="read everything, write nothing, and list what would fail"
    )


def run(options: argparse.Namespace) -> int:
    from abreast.records.packing import packer

    _check(options)
    settings = {name: getattr(options, name) for name in _SETTINGS}
    if options.label is not None:
        settings["label"] = ",".join(options.label)
    line = ProgressLine()
    try:
        summary = packer.pack(options.source, options.dest, **settings, progress=line.show)
    except KeyboardInterrupt:
        line.end()
        tell("stopped\nhint: run the same command again to continue after the last whole shard")
        return 130
    finally:
        line.end()
    say(str(summary))
    return 1 if summary.dry_run and summary.skipped else 0


def _check(options: argparse.Namespace) -> None:
    """Raise `DataError` for options that `pack` would refuse by the names of its arguments."""
    for name in ("threads", "shard_mb"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise DataError(f"{_option(name)} {value:g} is not allowed", "give a number above 0")
    for name, other in _BESIDE.items():
        needed = other.split()[0]
        if getattr(options, name) is not None and getattr(options, needed) is None:
            raise DataError(f"{_option(name)} means nothing without --{needed}", f"add --{other}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class ProgressLine:
    """Progress on stderr: one line that changes on a terminal, and elsewhere a new line every `every_seconds`."""

    def __init__(self, every_seconds: float = 10.0) -> None:
        self._line = StatusLine()
        self._every_seconds = every_seconds
        self._shown_seconds = 0.0

    def show(self, progress: Progress) -> None:
        if self._line.is_shown:
            self._line.show(str(progress))
        elif progress.seconds - self._shown_seconds >= self._every_seconds:
            self._shown_seconds = progress.seconds
            tell(str(progress))

    def end(self) -> None:
        self._line.leave()
