"""The options of `abreast pack`. Loads no NumPy, which other commands do not need."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def add_arguments(parser: argparse.ArgumentParser, add: Callable[..., None]) -> None:
    """All options; `add` also takes their spellings with `_`."""
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
    add(
        parser,
        "--shard-mb",
        metavar="MB",
        type=float,
        default=1000,
        help="largest size of a shard, in 10^6 bytes (default: 1000)",
    )
    add(parser, "--shuffle-seed", metavar="N", type=int, help="pack in a random order, drawn with this seed")
    add(
        parser,
        "--split",
        metavar="PARTS",
        help="pack parts into folders of DEST: train=0.9,val=0.1 draws them, train,val are folders or shards of SOURCE",
    )
    add(parser, "--split-seed", metavar="N", type=int, default=0, help="seed that draws the parts (default: 0)")
    add(
        parser,
        "--image",
        metavar="NAME",
        help="column, feature or extension that holds the images, if it cannot be found automatically",
    )
    add(
        parser,
        "--columns",
        metavar="NAMES",
        help="columns to keep, separated by commas (default: all); NEW=OLD renames one",
    )
    add(
        parser,
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="stop at an image that cannot be packed, or skip it (default: stop)",
    )
