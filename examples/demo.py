"""`make demo`: train `digits.py`, unchanged, on one and on four simulated devices with every backend, and compare.

Each training is `abreast run --cpu-devices N examples/digits.py`, compared with plain Keras: `python examples/digits.py`. At the
end each saved model is loaded with plain Keras, in a process where abreast cannot be imported, and must predict what the
training process predicted. The exit code is 1 if anything differs.

    python examples/demo.py                      # every backend
    python examples/demo.py --backends jax       # one
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BACKENDS = ("jax", "tensorflow", "torch")
PLAIN = 0  # "devices" of the training without abreast, with which the others are compared
DEVICES = (PLAIN, 1, 4)
LEAST_ACCURACY = 0.97
# float32 and a few hundred steps: feeding one device the rows of each batch in another order moves the weights by 2e-6.
MOST_WEIGHT_DIFFERENCE = 2e-5
MOST_PREDICTION_DIFFERENCE = 1e-5
LIMIT_SECONDS = 240
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",  # PyTorch's threads spin while they wait; four devices on two cores have no time for that
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


class Failed(Exception):
    """A process of the demo failed."""


@dataclass
class Training:
    """One training, and the differences to plain Keras that `check` found afterwards."""

    backend: str
    devices: int
    folder: Path
    accuracy: float
    rows_per_second: float
    weight_difference: float = 0.0
    prediction_difference: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.backend}, {f'{self.devices} devices' if self.devices else 'plain'}"

    @property
    def faults(self) -> list[str]:
        found = []
        if not self.accuracy >= LEAST_ACCURACY:
            found.append(f"test accuracy {self.accuracy:.4f} is under {LEAST_ACCURACY}")
        if not self.weight_difference <= MOST_WEIGHT_DIFFERENCE:
            found.append(f"weights differ by {self.weight_difference:.1e} from those of plain Keras")
        if not self.prediction_difference <= MOST_PREDICTION_DIFFERENCE:
            found.append(f"predictions of the loaded model differ by {self.prediction_difference:.1e}")
        return [f"{self.name}: {fault}" for fault in found]


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the digits with abreast on every backend, and compare.")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="comma-separated; default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="default: %(default)s")
    parser.add_argument("--check", type=Path, nargs="+", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check:
        print(json.dumps(check(options.check)))
        return 0
    started = time.monotonic()
    try:
        trainings = [training for backend in options.backends.split(",") for training in demo(backend, options.output)]
    except Failed as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    print("\n" + table(trainings))
    print(
        "\nplain: without abreast, on one device"
        "\nweight difference: the largest difference to plain Keras, relative to the largest weight of its tensor"
        "\nreloaded: the largest difference of predictions after plain Keras, without abreast, has loaded the saved model"
        "\nSimulated devices share the cores of this machine: they show that results are equal, not how fast devices are."
    )
    faults = [fault for training in trainings for fault in training.faults]
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    print(f"{'FAILED' if faults else 'all equal'}, in {time.monotonic() - started:.0f} s")
    return 1 if faults else 0


def demo(backend: str, output: Path) -> list[Training]:
    """Train on each number of devices, then compare the saved models."""
    trainings = [train(backend, devices, output / f"{backend}-{devices or 'plain'}") for devices in DEVICES]
    say(f"{backend}: loading the saved models with plain Keras, without abreast")
    command = [sys.executable, str(HERE / "demo.py"), "--check", *(str(training.folder) for training in trainings)]
    lines = run(command, backend, trainings[-1].folder / "check.log", show="")
    found = json.loads(lines[-1])
    for training, (weight_difference, prediction_difference) in zip(trainings, found, strict=True):
        training.weight_difference = weight_difference
        training.prediction_difference = prediction_difference
    return trainings


def train(backend: str, devices: int, folder: Path) -> Training:
    """Run `digits.py` in its own process: under abreast, or with plain Keras if `devices` is `PLAIN`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)
    script = [str(HERE / "digits.py"), "--output", str(folder)]
    under_abreast = [str(abreast_command()), "run", "--cpu-devices", str(devices)]
    command = [*(under_abreast if devices else [sys.executable]), *script]
    say(f"$ KERAS_BACKEND={backend} {shown(command)}")
    run(command, backend, folder / "training.log", show="    ")
    result = json.loads((folder / "result.json").read_text())
    return Training(backend, devices, folder, result["accuracy"], result["rows_per_second"])


def abreast_command() -> Path:
    command = Path(sysconfig.get_path("scripts")) / "abreast"
    if not command.exists():
        raise Failed(f"abreast is not installed in {sys.prefix}\nhint: run `make demo`, or `pip install -e .` first")
    return command


def run(command: list[str], backend: str, log: Path, show: str) -> list[str]:
    """Run a process; returns the lines of its stdout, printed with the prefix `show` if it is set. stderr goes to `log`."""
    environment = {**os.environ, **ENVIRONMENT, "KERAS_BACKEND": backend}
    lines = []
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        watchdog = threading.Timer(LIMIT_SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip())
                if show:
                    say(show + lines[-1])
            code = process.wait()
        finally:
            late = not watchdog.is_alive()
            watchdog.cancel()
            process.kill()
            process.wait()
    if code or not lines:
        what = f"took more than {LIMIT_SECONDS} s" if late else f"ended with exit code {code}"
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise Failed(f"{shown(command)} {what}\n--- {log} ---\n{tail}")
    return lines


def check(folders: list[Path]) -> list[tuple[float, float]]:
    """`(weight difference to the first, prediction difference to the saved predictions)` of each model, with plain Keras."""
    sys.meta_path.insert(0, WithoutAbreast())
    try:
        import abreast  # noqa: F401
    except ModuleNotFoundError:
        pass
    else:
        raise Failed("abreast can be imported where it should be absent")
    import keras
    import numpy as np

    models = [keras.saving.load_model(folder / "digits.keras") for folder in folders]
    found = []
    for folder, model in zip(folders, models, strict=True):
        saved = np.load(folder / "predictions.npz")
        predictions = model.predict(saved["x"], batch_size=64, verbose=0)
        weights = zip(models[0].get_weights(), model.get_weights(), strict=True)
        found.append(
            (
                max(float(np.abs(ours - one).max() / np.abs(one).max()) for one, ours in weights),
                float(np.abs(predictions - saved["predictions"]).max()),
            )
        )
    if any(name.partition(".")[0] == "abreast" for name in sys.modules):
        raise Failed("loading the model imported abreast")
    return found


class WithoutAbreast:
    """An import hook that hides abreast."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == "abreast":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def table(trainings: list[Training]) -> str:
    header = ("backend", "devices", "test accuracy", "weight difference", "rows per second", "reloaded", "saved model")
    rows = [header, *(row(training) for training in trainings)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def row(training: Training) -> tuple[str, ...]:
    return (
        training.backend,
        str(training.devices or "plain"),
        f"{training.accuracy:.4f}",
        f"{training.weight_difference:.1e}" if training.devices else "-",
        f"{training.rows_per_second:.0f}",
        f"{training.prediction_difference:.1e}",
        str(training.folder / "digits.keras"),
    )


def shown(command: list[str]) -> str:
    """A command as a user would type it here."""
    folder = Path.cwd()
    parts = [Path(command[0]).name, *command[1:]]
    return " ".join(
        str(Path(part).relative_to(folder)) if Path(part).is_relative_to(folder) else part for part in parts
    )


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
