"""The options of `abreast check` in addition to those for running a script. Imports nothing of abreast."""

from __future__ import annotations

import argparse
from collections.abc import Callable

STEPS = 20
SIMULATED_DEVICES = 4


def add_arguments(parser: argparse.ArgumentParser, add: Callable[..., None]) -> None:
    """Add all options to the parser; `add` also accepts their spellings with `_`."""
    parser.add_argument("--steps", metavar="N", type=int, default=STEPS, help=f"steps of each fit (default: {STEPS})")
    parser.add_argument(
        "--float64", action="store_true", help="compute in float64, to distinguish rounding from a difference"
    )
    add(
        parser,
        "--no-random",
        action="store_true",
        help="switch off random layers on both sides, and compare everything else",
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
