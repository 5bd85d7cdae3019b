"""A report of `abreast bench`: Keras's CIFAR-10 example on PyTorch, on one core and on two, beside two rivals.

    python examples/bench_report.py                          # writes bench-report/ here
    python examples/bench_report.py --images docs/images     # also makes the picture in the documentation, and keeps its lines

Each simulated device computes on one core, so that two of them can be twice as fast. Leave the machine alone meanwhile: of a
noisy measurement no picture is made. The picture needs a browser and Pillow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from abreast.bench.lines import append
from abreast.bench.noise import noise
from abreast.bench.run import measurements

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "benchmarks" / "results" / "bench.jsonl"
WIDTH = 1080
CASE = "cifar10 --backend torch --cpu-devices 2 --against keras,native --rounds 15 --again"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("bench-report"), help="folder of the report")
    parser.add_argument("--images", type=Path, help="folder of its picture; made only if given")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    lines = arguments.output / "bench.jsonl"
    command = [sys.executable, "-m", "abreast", "bench", *CASE.split(), "-o", lines, "--report", arguments.output]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if arguments.images is not None:
        _picture(lines, arguments.output / "report.html", arguments.images / "bench-report.png")


def _picture(lines: Path, page: Path, target: Path) -> None:
    newest = {(line["case"]["side"], line["case"]["devices"]): line for line in measurements(lines)}
    if any(map(noise, newest.values())):
        sys.exit("no picture: a measurement is too noisy\nhint: leave the machine alone, and run this again")
    sys.path.insert(0, str(ROOT))
    from tests.harness.picture import picture

    picture(page, target, WIDTH)
    append(KEPT, list(newest.values()))
    print(f"{KEPT}\nnow run: python benchmarks/table.py")


if __name__ == "__main__":
    main()
