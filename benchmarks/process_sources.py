"""Rows that each process of a launcher reads of a source, and seconds of an epoch: its own rows only, and all rows.

    python benchmarks/process_sources.py [--sources DataLoader] [--processes 1,2,4] [--rows 512] [--batch-size 128] [--epochs 4]

The processes share the cores of this host. The model is small, so that an epoch is mostly reading. One source has random
images of 256 x 256 pixels, packed as JPEG and decoded to 224 x 224. Another is an array of as many rows of 150,528 numbers,
which NumPy maps from a file. The third is a `DataLoader` over the rows of this array. The first epoch, with the compilation, is
dropped as warm-up. "all rows": every process reads the whole source. The rows that are read count those that all compare.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import lines

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.launched.job import result, start, start_all

_SCRIPT = """
import json, os, sys, threading, time
source, folder, own = sys.argv[1], sys.argv[2], sys.argv[3] == "own rows"
epochs, batch_size = map(int, sys.argv[4:])
import abreast
if "RANK" in os.environ:
    scope = abreast.DataParallel()
else:
    abreast.use_cpu_devices(1)
    scope = abreast.DataParallel(1)
import keras
import numpy as np
from abreast.backend.jax import backend as jax_backend
if not own:
    jax_backend._parts = lambda adapter, own_rows: None
read, lock = [0], threading.Lock()
def note(number):
    with lock:
        read[0] += number
class Epochs(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.times, self.rows = [], []
    def on_epoch_begin(self, epoch, logs=None):
        self.begin, self.before = time.perf_counter(), read[0]
    def on_epoch_end(self, epoch, logs=None):
        self.times.append(time.perf_counter() - self.begin)
        self.rows.append(read[0] - self.before)
with scope:
    layers = [keras.layers.Rescaling(1 / 255), keras.layers.AveragePooling2D(16), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((224, 224, 3)), *layers])
    model.compile("sgd", "mse")
epochs_seen = Epochs()
if source == "ImageRecords":
    records = abreast.ImageRecords(folder + "/train.pack", batch_size, size=224, seed=1, num_threads=1)
    painter = records._assembly.batches.rows
    plain = painter.paint
    def paint(numbers, *arguments):
        note(len(numbers))
        plain(numbers, *arguments)
    painter.paint = paint
    model.fit(records, epochs=epochs, verbose=0, callbacks=[epochs_seen])
elif source == "DataLoader":
    import torch
    x = np.load(folder + "/x.npy", mmap_mode="r")
    class Rows(torch.utils.data.Dataset):
        abreast_by_index = True
        def __len__(self):
            return len(x)
        def __getitem__(self, index):
            note(1)
            return np.array(x[index]), 0.0
    loader = torch.utils.data.DataLoader(Rows(), batch_size=batch_size, shuffle=True)
    model.fit(loader, epochs=epochs, verbose=0, callbacks=[epochs_seen])
else:
    class Counting(np.ndarray):
        def __getitem__(self, places):
            rows = super().__getitem__(places)
            if isinstance(places, np.ndarray):
                note(len(rows))
            return rows
    x = np.load(folder + "/x.npy", mmap_mode="r").view(Counting)
    model.fit(x, np.zeros(len(x)), batch_size=batch_size, epochs=epochs, verbose=0, callbacks=[epochs_seen])
print(json.dumps({"seconds": epochs_seen.times[1:], "rows": epochs_seen.rows[1:]}))
"""


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="abreast-process-sources-") as folder:
        _prepare(folder, arguments.rows)
        for source in arguments.sources.split(","):
            for processes in arguments.processes:
                for reads in ("all rows", "own rows") if processes > 1 else ("all rows",):
                    _measure(arguments, folder, source, processes, reads)


def _measure(arguments: argparse.Namespace, folder: str, source: str, processes: int, reads: str) -> None:
    words = (source, folder, reads, str(arguments.epochs), str(arguments.batch_size))
    if processes == 1:
        jobs = [start(_SCRIPT, None, 0, 1, *words, backend=arguments.backend)]
    else:
        jobs = start_all(_SCRIPT, processes, *words, backend=arguments.backend)
    found = [result(job) for job in jobs]
    seconds = [max(each) for each in zip(*(one["seconds"] for one in found), strict=True)]
    rows = [statistics.median(one["rows"]) for one in found]
    case = {
        "source": source,
        "processes": processes,
        "reads": reads,
        "rows": arguments.rows,
        "batch_size": arguments.batch_size,
        "backend": arguments.backend,
    }
    lines.append([lines.line("process_sources", case, seconds, "seconds", warm_up="1 epoch", rows_read_by_rank=rows)])
    print(
        f"{source}, {processes} processes, {reads}: {rows} rows read of {arguments.rows}, "
        f"{statistics.median(seconds):.2f} s an epoch ({min(seconds):.2f} to {max(seconds):.2f})",
        flush=True,
    )


def _prepare(folder: str, rows: int) -> None:
    code = """
import sys
import numpy as np
from abreast.records import pack
folder, rows = sys.argv[1], int(sys.argv[2])
draws = np.random.default_rng(0)
small = draws.integers(0, 256, (rows, 32, 32, 3), np.uint8)
pack((small.repeat(8, 1).repeat(8, 2), np.arange(rows) % 2), folder + "/train.pack", size=256)
x = np.lib.format.open_memmap(folder + "/x.npy", "w+", np.uint8, (rows, 224, 224, 3))
x[:] = small.repeat(7, 1).repeat(7, 2)
"""
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    subprocess.run([sys.executable, "-c", code, folder, str(rows)], check=True, env=environment)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sources", default="ImageRecords,mapped array,DataLoader")
    parser.add_argument("--processes", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--backend", default="jax", choices=("jax",))
    return parser.parse_args()


if __name__ == "__main__":
    main()
