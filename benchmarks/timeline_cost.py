"""Cost of `abreast.Timeline` in a step of about 5 ms: steps with and without it, in turns, in one `fit`.

    python benchmarks/timeline_cost.py [--quick] [--backends jax,torch] [--devices 1,2] [--turns 1200]
                                       [--compute-threads 0]

Each cell (backend, devices) is a fresh process. It widens the batch until a step takes 5 ms. Then one `fit` runs in turns of
ten steps, the first two of which are dropped: without a timeline, with one, and without again, as the control. A sample is a
step, from one `on_train_batch_begin` to the next. For each turn with a timeline, its median is divided by the mean of the turns
before and after, so that a slowdown of the machine does not count; `ratio` is the median of these. `control` is the same ratio of
the turns after to the turns before, and shows the machine's noise. Neither includes the timeline's own thread, which sums up
every second: `thread_seconds` is its CPU time per step. It costs a step nothing while a core is idle, and at most its whole time
if none is: `ratio_with_thread` counts it in full.

Steps compute in `--compute-threads` threads, by default one: then one of two cores only runs Python, as beside a GPU. With
0 the framework uses every core, and the work of any thread lengthens the step.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import tempfile
import time
from typing import Any

import cells
import lines

_BACKENDS = ("jax", "tensorflow", "torch")
_STEP_SECONDS = 0.005
_FLOOR = 1.01
_SIDES = ("without", "with", "control")
_TURN = 10  # steps
_DROPPED = 2
_CELL_SECONDS = 500
_THREADS = ("NPROC", "TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")  # XLA's, TensorFlow's and PyTorch's


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(measure(json.loads(arguments.cell))))
        return
    for backend in arguments.backends:
        for num_devices in arguments.devices:
            cell = {"backend": backend, "devices": num_devices, "gpu": arguments.gpu, "turns": arguments.turns}
            cell["compute_threads"] = arguments.compute_threads
            _report(cell, _in_fresh_process(cell))


def measure(cell: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each step by side, CPU seconds of the timeline's thread, and the rows of a batch. Runs in the cell's process."""
    import abreast

    if not cell["gpu"]:
        abreast.use_cpu_devices(cell["devices"])
    model = abreast.parallelize(_model(), cell["devices"])
    native = importlib.import_module(f"abreast.bench.native_{cell['backend']}")
    rows = 64 * cell["devices"]
    for _ in range(5):  # the first one compiles
        rows = max(cell["devices"], round(rows * min(4.0, _STEP_SECONDS / _seconds_per_step(native, model, rows))))
    turns = _turns(cell["turns"])
    with tempfile.TemporaryDirectory() as folder:
        timeline = abreast.Timeline(f"{folder}/run.jsonl")
        turns.timeline = timeline
        model.fit(_Batches(rows, _TURN * cell["turns"] + 1), shuffle=False, verbose=0, callbacks=[timeline, turns])
    return turns.samples | {"thread_seconds": turns.thread_seconds, "rows": rows}


def _seconds_per_step(native: Any, model: Any, rows: int) -> float:
    from abreast.bench import clock

    arguments = {"x": _Batches(rows, 46), "shuffle": False}
    return clock.seconds_per_step(model, arguments, 5, 40, lambda: native.wait_for(model))


def _model() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    return model


def _Batches(rows: int, steps: int) -> Any:  # noqa: N802  # a class, made when Keras is imported
    """The same batch at every step, so that the cost of input is not measured."""
    import keras
    import numpy as np

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            x = np.random.default_rng(0).standard_normal((rows, 256), dtype=np.float32)
            self.batch = x, x[:, :10]

        def __len__(self) -> int:
            return steps

        def __getitem__(self, index: int) -> Any:
            return self.batch

    return Batches()


def _turns(num_turns: int) -> Any:
    """A callback that passes every other turn to a timeline, and times the steps."""
    import keras

    from abreast import spans

    class Turns(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.timeline: Any = None
            self.samples: dict[str, list[list[float]]] = {side: [] for side in _SIDES}
            self.thread_seconds = 0.0
            self._side = _SIDES.index("with")  # a fit with a timeline begins on this side
            self._before = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            now = time.perf_counter_ns()
            turn, number = divmod(batch - 1, _TURN)
            if number >= _DROPPED and turn > 1:
                turns = self.samples[_SIDES[self._side]]
                if number == _DROPPED:
                    turns.append([])
                turns[-1].append((now - self._before) / 1e9)
            self._before = now
            if number == _TURN - 1:
                self._switch()

        def _switch(self) -> None:
            recorder = self.timeline._recorder
            if _SIDES[self._side] == "with":
                recorder._fit.leave(recorder)
                recorder._open = None
                spans.ignore(recorder._heard)
            self._side = (self._side + 1) % len(_SIDES)
            if _SIDES[self._side] == "with":
                spans.listen(recorder._heard)
                recorder._fit.follow(recorder)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            thread = self.timeline._recorder._thread
            self.thread_seconds = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))

    return Turns()


def _in_fresh_process(cell: dict[str, Any]) -> dict[str, Any]:
    environment = lines.STEADY_HEAP | {"KERAS_BACKEND": cell["backend"], "TF_CPP_MIN_LOG_LEVEL": "3"}
    if cell["compute_threads"]:
        environment |= dict.fromkeys(_THREADS, str(cell["compute_threads"]))
    samples: dict[str, Any] = cells.in_a_process(__file__, cell, environment, _CELL_SECONDS)
    return samples


def _report(cell: dict[str, Any], samples: dict[str, Any]) -> None:
    medians = {side: [statistics.median(turn) for turn in samples[side]] for side in _SIDES}
    median = statistics.median(medians["without"])
    thread_seconds = samples["thread_seconds"] / (cell["turns"] * _TURN / len(_SIDES))
    around = list(map(statistics.fmean, zip(medians["without"], medians["control"], strict=False)))
    ratio, control = _ratio(medians["with"], around), _ratio(medians["control"], medians["without"])
    whole = ratio + thread_seconds / median
    ratios = {
        "ratio": round(ratio, 4),
        "control": round(control, 4),
        "thread_seconds": round(thread_seconds, 7),
        "ratio_with_thread": round(whole, 4),
    }
    notes = {"rows": samples["rows"], "warm_up": f"two turns, and the first {_DROPPED} steps of every {_TURN}"}
    place = {name: cell[name] for name in ("backend", "devices", "gpu", "compute_threads")}
    lines.append(
        [
            lines.line("timeline_cost", place | {"side": "without"}, medians["without"], "seconds per step", **notes),
            lines.line(
                "timeline_cost", place | {"side": "with"}, medians["with"], "seconds per step", **notes, **ratios
            ),
        ]
    )
    verdict = "" if ratio <= _FLOOR else f"  above the floor of {_FLOOR}"
    print(
        f"{cell['backend']:<11}{cell['devices']} device(s)  {1000 * median:6.2f} ms  {ratio:.4f}x "
        f"(control {control:.4f}x), with {1e6 * thread_seconds:.0f} us of its thread {whole:.4f}x{verdict}",
        flush=True,
    )


def _ratio(turns: list[float], without: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(turns, without, strict=False))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=_BACKENDS)
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=(1,))
    parser.add_argument("--turns", type=int)
    parser.add_argument("--compute-threads", type=int, default=1, help="0: as many as the framework uses")
    parser.add_argument("--quick", action="store_true", help="few turns, for a first look")
    parser.add_argument("--gpu", action="store_true", help="on GPUs instead of simulated devices")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.turns = arguments.turns or (60 if arguments.quick else 1200)
    return arguments


if __name__ == "__main__":
    main()
