"""`python -m benchmarks.gpu`: run every part that needs a GPU, print a table, and write JSON lines. See CONTRIBUTING.md.

The exit code is 0, or 1 if a part failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import wheels
from benchmarks.gpu.catalogue import USUAL_SECONDS


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options(given)
    if options.wheels is not None:
        return _with_wheels(Path(options.wheels), given)
    absent = wheels.absent_of_abreast()
    if absent:
        print(f"error: {', '.join(absent)}: not installed\nhint: bring them along: make gpu-wheels", file=sys.stderr)
        return 2
    from benchmarks.gpu.session import session  # imports the packages that were just checked

    return session(options)


def _with_wheels(folder: Path, given: Sequence[str]) -> int:
    """The same command with the packages of a folder, in a process that can import them."""
    with tempfile.TemporaryDirectory(prefix="abreast-wheels-") as target:
        try:
            added = wheels.install(folder, Path(target))
        except subprocess.CalledProcessError:  # pip has printed the reason
            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            print(f"hint: collect them for this Python: make gpu-wheels GPU_PYTHON={python}", file=sys.stderr)
            return 2
        print(f"from {folder}: {', '.join(added) or 'nothing that is missing here'}", file=sys.stderr, flush=True)
        path = os.pathsep.join([target, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "benchmarks.gpu", *given, "--wheels", ""]
        return subprocess.call(command, env=os.environ | {"PYTHONPATH": path})


def _options(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--devices", default="gpu", help="gpu, or cpu:N for N simulated devices (default: gpu)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=USUAL_SECONDS,
        help=f"for all parts together; with more seconds, each part has more (default: {USUAL_SECONDS:g})",
    )
    parser.add_argument("--only", default="", metavar="NAMES", help="parts and backends, as contract,timeline,jax")
    parser.add_argument("--output", metavar="FILE", help="file of the lines (default: benchmarks/results/gpu.jsonl)")
    parser.add_argument(
        "--wheels",
        metavar="FOLDER",
        type=lambda text: text or None,
        help="folder of packages to use if they are missing",
    )
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
