"""A report of `abreast bench` on two simulated devices, beside an invented prediction.

    python examples/bench_report.py                          # writes bench-report/ here
    python examples/bench_report.py --images docs/images     # also makes the picture in the documentation

The picture needs a browser and Pillow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 1080


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("bench-report"), help="folder of the report")
    parser.add_argument("--images", type=Path, help="folder of its picture; made only if given")
    parser.add_argument("--backend", default="jax")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    lines, predicted = arguments.output / "bench.jsonl", arguments.output / "predicted.jsonl"
    where = ["--backend", arguments.backend, "--cpu-devices", "2", "--against", "keras,native", "-o", str(lines)]
    _bench("mlp", *where)
    predicted.write_text("".join(json.dumps(line) + "\n" for line in _prediction(lines)))
    _bench("--report", str(arguments.output), "--predicted", str(predicted), "-o", str(lines))
    if arguments.images is not None:
        sys.path.insert(0, str(ROOT))
        from tests.harness.picture import picture

        picture(arguments.output / "report.html", arguments.images / "bench-report.png", WIDTH)


def _bench(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "abreast", "bench", *arguments], check=True)


def _prediction(lines: Path) -> list[dict[str, object]]:
    """Invented predictions: with two devices, a step for twice the rows takes 1.5 times as long, plus or minus a fifth."""
    found = [json.loads(text) for text in lines.read_text().splitlines()]
    one = next(line["median"] for line in found if line["case"]["side"] == "abreast" and line["case"]["devices"] == 1)
    case = {"model": "mlp"}
    return [
        {"case": case | {"devices": devices}, "median": seconds, "interval": [0.8 * seconds, 1.2 * seconds]}
        for devices, seconds in ((1, one), (2, 1.5 * one))
    ]


if __name__ == "__main__":
    main()
