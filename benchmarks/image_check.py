"""Check that each reader of `image_readers.py` yields correct batches, with pictures whose pixels show their own position.

    python benchmarks/image_check.py [--readers "DALI;tf.data"]

Red grows linearly from left to right and green from top to bottom; blue is constant. In a part that is cut, resized and mirrored,
the colours are linear too, and their ends show which part it was.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import image_readers
import numpy as np

SIDE, BLUE, NUM_PICTURES = 480, 100, 128
_NUM_BATCHES = 3
_BENT = 4.0  # of 255: allowed distance from a straight line, after JPEG
_ENVIRONMENT = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--readers", type=lambda text: text.split(";"), default=list(image_readers.READERS))
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.place is not None:
        print("\n".join(faults(arguments.readers[0], arguments.place)))
        return
    with tempfile.TemporaryDirectory(prefix="abreast-images-") as folder:
        sys.exit(not _all_right(arguments.readers, Path(folder)))


def _all_right(readers: list[str], place: Path) -> bool:
    import image_sets

    write_pictures(place / "jpeg")
    image_sets.prepare(place, SIDE, 95, _ENVIRONMENT)
    right = True
    for name in readers:
        missing = image_readers.READERS[name].missing()
        command = [sys.executable, __file__, "--readers", name, "--place", str(place)]
        found = f"left out, without {' and '.join(missing)}"
        if not missing:
            variables = image_readers.READERS[name].variables(_ENVIRONMENT)
            done = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True)
            found = done.stdout.strip() or "right"
            right = right and found == "right"
        print(f"{name}: {found}", flush=True)
    return right


def write_pictures(folder: Path) -> None:
    """Write the same picture many times, in two classes."""
    from PIL import Image

    line = np.linspace(0, 255, SIDE)
    pixels = np.stack(np.broadcast_arrays(line[None, :], line[:, None], np.float64(BLUE)), axis=2)
    image = Image.fromarray(np.rint(pixels).astype(np.uint8))
    for i in range(NUM_PICTURES):
        path = folder / f"class{i % 2}" / f"{i:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=95)


@dataclass(frozen=True)
class Seen:
    """The part of the picture that a row of a batch shows, in shares of its sides; `bent` is its distance from linear colours."""

    left: float
    top: float
    width: float
    height: float
    mirrored: bool
    bent: float


def seen(image: Any) -> Seen:
    red, green, blue = np.moveaxis(np.asarray(image, np.float64), 2, 0)
    across, left, bent = _line(red, 0)
    down, top, bent_down = _line(green, 1)
    off = float(np.abs(blue - BLUE).max())
    begin = left if across > 0 else left + across
    return Seen(begin, top, abs(across), down, across < 0, max(bent, bent_down, off))


def _line(colour: Any, axis: int) -> tuple[float, float, float]:
    """How far a colour grows over the image, in sides of the picture; where that begins; and its largest distance from a line."""
    size = colour.shape[1 - axis]
    places = (np.arange(size) + 0.5) / size
    inner = slice(size // 16, size - size // 16)  # the border pixels have no neighbours to interpolate with
    slope, begin = np.polyfit(places[inner], colour.mean(axis=axis)[inner], 1)
    line = begin + slope * places
    rows = colour if axis == 0 else colour.T
    # Between the middles of the first pixel and of the last are 255 steps.
    scale = (SIDE - 1) / SIDE / 255
    return slope * scale, begin * scale + 0.5 / SIDE, float(np.abs(rows - line)[:, inner].max())


def faults(name: str, place: Path) -> list[str]:
    """The faults in the first batches of a reader, a line each."""
    reader = image_readers.READERS[name]
    batches = reader.read(place, 1)
    taken = [np.array(next(batches)) for _ in range(_NUM_BATCHES)]
    if reader.shows == "nothing":
        return []
    shape = (image_readers.BATCH, image_readers.SIZE, image_readers.SIZE, 3)
    if any(batch.shape != shape or batch.dtype != np.uint8 for batch in taken):
        return [f"shapes {[batch.shape for batch in taken]}, of {taken[0].dtype}"]
    views = [seen(image) for batch in taken for image in batch]
    worst = max(view.bent for view in views)
    return ([f"colours are off by {worst:.1f}"] if worst > _BENT else []) + _CHECKS[reader.shows](views)


def _random_part(views: list[Seen]) -> list[str]:
    areas = [view.width * view.height for view in views]
    ratios = [view.width / view.height for view in views]
    outside = [view for view in views if min(view.left, view.top) < -0.01 or _end(view) > 1.01]
    low, high = image_readers.SCALE
    narrow, wide = image_readers.RATIO
    return _told(
        {
            f"areas are {min(areas):.2f} to {max(areas):.2f}": not low - 0.01 < min(areas) < max(areas) < high + 0.01,
            "areas are all alike": max(areas) - min(areas) < 0.5,
            f"ratios are {min(ratios):.2f} to {max(ratios):.2f}": not narrow * 0.95
            < min(ratios)
            < max(ratios)
            < wide * 1.05,
            "ratios are all alike": max(ratios) / min(ratios) < 1.3,
            f"{len(outside)} are not inside of the picture": bool(outside),
            "places are all alike": np.ptp([view.left for view in views]) < 0.3,
            "not every second one is mirrored": not 0.3 < np.mean([view.mirrored for view in views]) < 0.7,
        }
    )


def _fixed(side: float, where: str, moves: bool) -> Any:
    """Check a part of a fixed size: in the centre, or anywhere and mirrored."""

    def check(views: list[Seen]) -> list[str]:
        begin = (1 - side) / 2
        sizes = [each for view in views for each in (view.width, view.height)]
        places = [each for view in views for each in (view.left, view.top)]
        share = np.mean([view.mirrored for view in views])
        return _told(
            {
                f"sides are {min(sizes):.3f} to {max(sizes):.3f} of the picture's": np.abs(np.array(sizes) - side).max()
                > 0.01,
                f"they do not lie {where}": not moves and np.abs(np.array(places) - begin).max() > 0.01,
                "places are all alike": moves and np.ptp(places) < 0.01,
                f"{share:.0%} are mirrored": not (0.3 < share < 0.7 if moves else share == 0),
            }
        )

    return check


def _end(view: Seen) -> float:
    return max(view.left + view.width, view.top + view.height)


def _told(found: dict[str, Any]) -> list[str]:
    return [what for what, wrong in found.items() if wrong]


_CHECKS = {
    "random part": _random_part,
    "centre": _fixed(0.875, "in the centre", moves=False),
    "whole": _fixed(1.0, "over all of the picture", moves=False),
    "random place": _fixed(image_readers.SIZE / 256, "anywhere", moves=True),
}


if __name__ == "__main__":
    main()
