"""Rates of reading images into batches: abreast's records, the decoder alone, and widely used readers.

    python benchmarks/images.py [--quick] [--images 1000] [--cores 1,2] [--readers "abreast;tf.data"]

Each cell runs in its own process with the given number of cores. The cells of a round take turns, and a sample is the images per
second of one turn. The images are made from photographs that come with Python packages. The first batches are dropped; the page
cache is warm.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cells
import lines
from photo_sets import SETS

_DROPPED = 4
_ENVIRONMENT = lines.STEADY_HEAP | {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(_measure(json.loads(arguments.cell))))
        return
    import image_sets
    import photos

    with tempfile.TemporaryDirectory(prefix="abreast-images-") as folder:
        for name in arguments.sets:
            place = Path(folder) / name.replace(" ", "-")
            width, height, quality = SETS[name]
            photos.make(place / "jpeg", arguments.images, width, height, quality)
            image_sets.prepare(place, min(width, height), quality, _ENVIRONMENT)
            _run(name, place, arguments)


def _run(name: str, place: Path, arguments: argparse.Namespace) -> None:
    import image_readers

    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for cores in arguments.cores:
            for reader in arguments.readers:
                cell = {"place": str(place), "reader": reader, "cores": cores, "seconds": arguments.seconds}
                variables = image_readers.READERS[reader].variables(_ENVIRONMENT)
                found.setdefault((reader, cores), []).append(cells.in_a_process(__file__, cell, variables))
    for (reader, cores), samples in found.items():
        middle = {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
        rates = [sample["images_per_second"] for sample in samples]
        notes = {
            "cpu_ms_per_image": round(middle["cpu_ms_per_image"], 4),
            "peak_bytes": int(middle["peak_bytes"]),
            "seconds_per_sample": arguments.seconds,
            "num_images": arguments.images,
            "warm_up": f"{_DROPPED} batches",
        }
        case = {"images": name, "reader": reader, "cores": cores}
        if not arguments.quick:
            lines.append([lines.line("images", case, rates, "images/s", **notes)])
        text = f"{middle['images_per_second']:8.0f} images/s {middle['cpu_ms_per_image']:7.3f} ms of CPU"
        print(f"{name}  {cores} core(s)  {reader:<34}{text}  {middle['peak_bytes'] / 2**20:6.0f} MiB", flush=True)


def _measure(cell: dict[str, Any]) -> dict[str, float]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: cell["cores"]])
    import image_readers

    batches = image_readers.READERS[cell["reader"]].read(Path(cell["place"]), cell["cores"])
    for _ in range(_DROPPED):
        next(batches)
    count, cpu, begin = 0, _cpu_seconds(), time.perf_counter()
    while time.perf_counter() - begin < cell["seconds"]:
        count += len(next(batches))
    seconds, cpu = time.perf_counter() - begin, _cpu_seconds() - cpu
    return {"images_per_second": count / seconds, "cpu_ms_per_image": 1000 * cpu / count, "peak_bytes": _peak_bytes()}


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its running children."""
    import psutil

    process = psutil.Process()
    times = [each.cpu_times() for each in [process, *process.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def _peak_bytes() -> float:
    """Peak memory of this process, plus the present memory of its children."""
    import psutil

    children = sum(child.memory_info().rss for child in psutil.Process().children(recursive=True))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + children


def _arguments() -> argparse.Namespace:
    import image_readers

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, help="images of each size")
    parser.add_argument("--cores", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    names = list(image_readers.READERS)
    parser.add_argument("--readers", type=lambda text: text.split(";"), default=names, help="names between semicolons")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of each sample")
    parser.add_argument("--quick", action="store_true", help="few images and short samples, and no lines are written")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.images = arguments.images or (200 if arguments.quick else 1000)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    arguments.seconds = arguments.seconds or (2.0 if arguments.quick else 6.0)
    arguments.readers = [name for name in arguments.readers if arguments.cell or not _left_out(name)]
    return arguments


def _left_out(name: str) -> bool:
    """Whether a need of a reader is missing; prints which one."""
    import image_readers

    missing = image_readers.READERS[name].missing()
    if missing:
        print(f"left out: {name}, without {' and '.join(missing)}", file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    main()
