"""Packing a folder of photographs: many threads against one, in images per second.

    python benchmarks/packing.py [--quick] [--images 1000] [--threads 1,2] [--storages jpeg,keep,raw]

Each cell runs in its own process with as many cores as threads. It packs the folder once, to check it and to read it into
memory, and a second time to be timed, until all data is on the disk. The cells of a round take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import cells
import lines
from photo_sets import SETS

_ENVIRONMENT = lines.STEADY_HEAP | {"OMP_NUM_THREADS": "1"}
# The stored form of an image; `jpeg` and `raw` with a size decode and shrink it first.
_STORAGES: dict[str, dict[str, Any]] = {
    "jpeg": {"storage": "jpeg"},
    "jpeg at 256": {"storage": "jpeg", "size": 256},
    "raw at 256": {"storage": "raw", "size": 256},
    "keep": {"storage": "keep"},
}


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(_measure(json.loads(arguments.cell))))
        return
    import photos

    with tempfile.TemporaryDirectory(prefix="abreast-packing-") as folder:
        for name in arguments.sets:
            place = Path(folder) / name.replace(" ", "-")
            photos.make(place, arguments.images, *SETS[name])
            for storage in arguments.storages:
                _run(name, storage, place, arguments)


def _run(name: str, storage: str, place: Path, arguments: argparse.Namespace) -> None:
    found: dict[int, list[dict[str, float]]] = {threads: [] for threads in arguments.threads}
    for turn in range(arguments.rounds):
        for threads in arguments.threads if turn % 2 == 0 else arguments.threads[::-1]:
            cell = {"source": str(place), "storage": storage, "threads": threads, "quality": SETS[name][2]}
            found[threads].append(cells.in_a_process(__file__, cell, _ENVIRONMENT))
    rates = {threads: [sample["images_per_second"] for sample in samples] for threads, samples in found.items()}
    least = min(rates)
    for threads, samples in found.items():
        ratios = [many / one * least / threads for many, one in zip(rates[threads], rates[least], strict=True)]
        notes = {
            "efficiency": round(statistics.median(ratios), 4),  # of the rounds
            "cpu_ms_per_image": round(statistics.median(sample["cpu_ms_per_image"] for sample in samples), 4),
            "num_images": arguments.images,
            "warm_up": "the folder packed once",
        }
        if not arguments.quick:
            case = {"images": name, "storage": storage, "threads": threads}
            lines.append([lines.line("packing", case, rates[threads], "images/s", **notes)])
        text = f"{statistics.median(rates[threads]):8.0f} images/s {notes['cpu_ms_per_image']:7.3f} ms of CPU"
        print(f"{name}  {storage:<12}{threads} thread(s){text}  efficiency {notes['efficiency']:.3f}", flush=True)


def _measure(cell: dict[str, Any]) -> dict[str, float]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: cell["threads"]])
    from abreast.records import pack

    settings = _STORAGES[cell["storage"]] | {"threads": cell["threads"]}
    if settings["storage"] == "jpeg":
        settings["quality"] = cell["quality"]
    with tempfile.TemporaryDirectory(prefix="abreast-packed-", dir=Path(cell["source"]).parent) as folder:
        pack(cell["source"], Path(folder) / "first", **settings)
        os.sync()  # the timed run must not wait for earlier writes
        before = os.times()
        summary = pack(cell["source"], Path(folder) / "second", **settings)
        after = os.times()
    cpu = after.user + after.system - before.user - before.system
    return {"images_per_second": summary.images_per_second, "cpu_ms_per_image": 1000 * cpu / summary.num_samples}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, help="images of each size")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--storages", type=lambda text: text.split(","), default=list(_STORAGES))
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="few images and rounds, and no lines are written")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.images = arguments.images or (200 if arguments.quick else 1000)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 7)
    return arguments


if __name__ == "__main__":
    main()
