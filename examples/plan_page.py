"""The page of a plan: ResNet-50 on up to four hosts of eight GPUs each. The plan needs none of them.

    python examples/plan_page.py                          # writes plan.html here
    python examples/plan_page.py --images docs/images     # also makes the picture in the documentation

The picture needs a browser and Pillow.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 1080
PLAN = "--model resnet50 --machine dgx-1-v100 --batch 64 --step-time 0.2 --devices 32 --epoch-rows 1281167"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("plan.html"), help="the page")
    parser.add_argument("--images", type=Path, help="folder of its picture; made only if given")
    arguments = parser.parse_args()
    options = [*PLAN.split(), "--price", "3 EUR", "--html", str(arguments.output)]
    subprocess.run([sys.executable, "-m", "abreast", "plan", *options], check=True)
    if arguments.images is not None:
        sys.path.insert(0, str(ROOT))
        from tests.harness.picture import picture

        picture(arguments.output, arguments.images / "plan-page.png", WIDTH)


if __name__ == "__main__":
    main()
