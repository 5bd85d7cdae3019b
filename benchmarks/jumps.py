"""Seconds to begin a source after 10,000 batches, as a restart in the middle of an epoch does, beside reading these batches.

`python benchmarks/jumps.py [--samples 5] [--batches 10000]` runs each backend in a process of its own and appends JSON lines to
`results/jumps.jsonl`. Arrays: 8 rows of 16 x 16 x 3 float32 per batch, shuffled. Images: 8 of 8 x 8 pixels, randomly cropped. A
`PyDataset` over the same arrays, a `DataLoader` over a `TensorDataset`, and a seeded `tf.data` pipeline.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

BACKENDS = ("jax", "tensorflow", "torch")
ROWS = 8


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--samples", type=int, default=5)
    options.add_argument("--batches", type=int, default=10_000)
    options.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.backend is not None:
        measure(given.backend, given.batches, given.samples)
        return
    for backend in BACKENDS:
        environment = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, __file__, "--backend", backend]
        command += ["--samples", str(given.samples), "--batches", str(given.batches)]
        subprocess.run(command, env=environment, check=True)


def measure(backend: str, num_batches: int, num_samples: int) -> None:
    import keras
    import lines

    from abreast.backend import current_backend
    from abreast.feed import Source
    from abreast.feed.jump import begin_at

    with tempfile.TemporaryDirectory() as folder:
        for kind, make, arguments in sources(num_batches, Path(folder)):
            jumps: list[float] = []
            reads: list[float] = []
            for _ in range(num_samples + 1):
                for seconds, jump in ((jumps, True), (reads, False)):
                    keras.utils.set_random_seed(1)
                    source = Source(make(), arguments, current_backend().source)
                    adapter = source.open()
                    begin = source.begin(adapter)
                    start = time.perf_counter()
                    if jump:
                        batches, _ = begin_at(adapter, begin, num_batches, agrees=lambda: True)
                    else:
                        batches = begin()
                        for _ in range(num_batches):
                            next(batches)
                    next(batches)
                    seconds.append(time.perf_counter() - start)
                    del batches
            case = {"backend": backend, "source": kind, "batches": num_batches}
            found = lines.line("jumps", case, jumps[1:], "s", reading_seconds=lines.quartiles(reads[1:]))
            lines.append([found])
            print(
                backend,
                kind,
                [round(each, 3) for each in jumps[1:]],
                [round(each, 2) for each in reads[1:]],
                flush=True,
            )


def sources(num_batches: int, folder: Path) -> Any:
    import keras
    import numpy as np
    import tensorflow as tf
    import torch

    import abreast
    from abreast.records import pack

    count = (num_batches + 2) * ROWS
    x = np.zeros((count, 16, 16, 3), "float32")
    small = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), np.uint8)
    pack((small, np.arange(count) % 10), folder / "images.pack")

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return num_batches + 2

        def __getitem__(self, index: int) -> Any:
            return (x[index * ROWS : (index + 1) * ROWS].copy(),)

    def loader() -> Any:
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(x)), ROWS, shuffle=True)

    def pipeline() -> Any:
        return tf.data.Dataset.range(count).shuffle(1000, seed=1).map(lambda i: tf.fill((16, 16, 3), i)).batch(ROWS)

    yield "arrays", lambda: x, {"batch_size": ROWS, "shuffle": True}
    yield "ImageRecords", lambda: abreast.ImageRecords(folder / "images.pack", ROWS, size=8, seed=1), {}
    yield "PyDataset", Rows, {"shuffle": True}
    yield "DataLoader", loader, {}
    yield "tf.data", pipeline, {}


if __name__ == "__main__":
    main()
