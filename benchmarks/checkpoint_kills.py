"""A save of a checkpoint is killed before each of its calls on files, with abreast, Keras's BackupAndRestore and Orbax.

    python benchmarks/checkpoint_kills.py [--writers abreast,keras,keras-double,orbax] [--most 100] [--orbax-python PYTHON]

A first checkpoint exists. A process begins to save the second one, and strace sends SIGKILL before one of its calls. Then the
writer's own reader loads what is there. The result is the share of kills after which it loads one of the two, whole. Each kill is
seen to fire, and those that did not are not counted. `--most` takes so many calls, evenly spread. Orbax runs in an environment of
its own, which is made for it unless `--orbax-python` names one. Tensors: a matrix of 64 x 64 and a vector, with Adam's slots.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.harness import strace  # noqa: E402

WRITERS = ("abreast", "keras", "keras-double", "orbax")


class Writer(Protocol):
    package: str

    def save(self, folder: Path, number: int) -> None: ...

    def load(self, folder: Path) -> str:
        """`old`, `new`, or what else was loaded. Raises anything if nothing can be loaded."""
        ...


class Abreast:
    package = "abreast"

    def __init__(self) -> None:
        from abreast.checkpoints import folder, write
        from abreast.provenance import versions

        versions()
        self._write, self._folder = write, folder

    def save(self, folder: Path, number: int) -> None:
        from abreast.checkpoints.snapshot import Snapshot

        path = self._write.write_checkpoint(folder, f"{number:04d}", Snapshot(_tensors(number), {"epoch": number}))
        older = [name for name in self._folder.checkpoint_names(folder) if name != path.name]
        self._folder.remove(folder, older)

    def load(self, folder: Path) -> str:
        found = self._folder.newest_good(folder)
        return "nothing" if found is None else _which(found[1].tensors, found[1].values["epoch"])


class Keras:
    package = "keras"

    def __init__(self, double: bool) -> None:
        os.environ["KERAS_BACKEND"] = "torch"  # which forks
        import keras

        self._keras, self._double = keras, double

    def _callback(self, folder: Path) -> Any:
        model = self._keras.Sequential([self._keras.Input((64,)), self._keras.layers.Dense(64)])
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        callback = self._keras.callbacks.BackupAndRestore(str(folder), double_checkpoint=self._double)
        callback.set_model(model)
        return callback

    def save(self, folder: Path, number: int) -> None:
        callback = self._callback(folder)
        tensors = _tensors(number)
        callback.model.set_weights([tensors["kernel"], tensors["bias"]])
        callback.on_epoch_end(number - 1)

    def load(self, folder: Path) -> str:
        callback = self._callback(folder)
        callback.on_train_begin()
        kernel, bias = callback.model.get_weights()
        return _which({"kernel": kernel, "bias": bias}, getattr(callback.model, "_initial_epoch", 0))


class Orbax:
    package = "orbax-checkpoint"

    def __init__(self) -> None:
        import jax  # noqa: F401
        import orbax.checkpoint

        self._orbax = orbax.checkpoint

    def _manager(self, folder: Path) -> Any:
        options = self._orbax.CheckpointManagerOptions(max_to_keep=1, enable_async_checkpointing=False)
        return self._orbax.CheckpointManager(folder, options=options)

    def save(self, folder: Path, number: int) -> None:
        manager = self._manager(folder)
        manager.save(number, args=self._orbax.args.StandardSave(_tensors(number)))
        manager.wait_until_finished()
        manager.close()

    def load(self, folder: Path) -> str:
        manager = self._manager(folder)
        step = manager.latest_step()
        if step is None:
            return "nothing"
        return _which(manager.restore(step, args=self._orbax.args.StandardRestore(_tensors(0))), step)


def _tensors(number: int) -> dict[str, Any]:
    import numpy as np

    shapes = {"kernel": (64, 64), "bias": (64,), "momentum": (64, 64), "velocity": (64, 64)}
    return {name: np.full(shape, number, np.float32) for name, shape in shapes.items()}


def _which(tensors: Any, epoch: int) -> str:
    values = {float(value) for name in ("kernel", "bias") for value in set(tensors[name].reshape(-1).tolist())}
    if values == {float(epoch)}:
        return {1: "old", 2: "new"}.get(epoch, f"epoch {epoch}")
    return "weights of one and place of the other" if len(values) == 1 else "a mixture of weights"


def _writer(name: str) -> Writer:
    if name == "abreast":
        return Abreast()
    return Orbax() if name == "orbax" else Keras(double=name == "keras-double")


def kills(name: str, most: int, place: Path) -> dict[str, Any]:
    """How many kills fired, at how many calls, and what could be loaded afterwards."""
    writer = _writer(name)
    points = _points(writer, place)
    chosen = points if len(points) <= most else [points[i * len(points) // most] for i in range(most)]
    found: Counter[str] = Counter()
    for number, (call, k) in enumerate(chosen):
        folder = place / f"{number}"
        _in_child(lambda folder=folder: writer.save(folder, 1))
        code, _ = strace.run(lambda folder=folder: writer.save(folder, 2), f"{call}:signal=SIGKILL:when={k}")
        if code == -9:
            found[_loaded(writer, folder)] += 1
        else:
            found["did not fire"] += 1
        shutil.rmtree(folder)
    version = importlib.metadata.version(writer.package)
    return {"calls": len(points), "found": dict(found), "writer_version": version}


def _points(writer: Writer, place: Path) -> list[tuple[str, int]]:
    """The calls from the first to the last one that names the folder, as name and number within a thread."""
    folder = place / "counted"
    _in_child(lambda: writer.save(folder, 1))
    code, log = strace.run(lambda: writer.save(folder, 2))
    assert code == 0, log[-1000:]
    shutil.rmtree(folder)
    counts: Counter[tuple[str, str]] = Counter()
    calls = []
    for line in log.splitlines():
        if (match := re.match(r"(\d+) +(\w+)\(", line)) is not None:
            counts[match[1], match[2]] += 1
            calls.append((match[2], counts[match[1], match[2]], str(folder) in line))
    named = [i for i, (_, _, about) in enumerate(calls) if about]
    return sorted({(call, k) for call, k, _ in calls[named[0] : named[-1] + 1]})


def _loaded(writer: Writer, folder: Path) -> str:
    with tempfile.NamedTemporaryFile("r", prefix="abreast-kills-") as file:

        def load() -> None:
            try:
                text = writer.load(folder)
            except Exception as error:
                text = f"not loadable: {type(error).__name__}"
            Path(file.name).write_text(text)

        _in_child(load)
        return file.read() or "not loadable: the reader died"


def _in_child(work: Callable[[], object]) -> None:
    """Frameworks are started in children: a process that has used them may not fork."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(pid, 0)


def _orbax_python(place: Path) -> str:
    """The Python of a new environment with Orbax."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = str(place / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "orbax-checkpoint", "jax"], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", default=",".join(WRITERS))
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--orbax-python", metavar="PYTHON")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # in the process of one writer
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="abreast-kills-") as place:
        if options.one:
            print(json.dumps(kills(options.one, options.most, Path(place))))
            return
        if (why := strace.missing()) is not None:
            sys.exit(why)
        for writer in options.writers.split(","):
            python = sys.executable
            if writer == "orbax":
                python = options.orbax_python or _orbax_python(Path(place) / "venv")
            _measure(writer, python, options.most)


def _measure(writer: str, python: str, most: int) -> None:
    import lines

    command = [python, __file__, "--one", writer, "--most", str(most)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    result = json.loads(done.stdout.splitlines()[-1])
    found = result.pop("found")
    fired = sum(found.values()) - found.pop("did not fire", 0)
    loaded = found.get("old", 0) + found.get("new", 0)
    case = {"writer": writer}
    lines.append([lines.line("checkpoint_kills", case, [loaded / fired], "share", kills=fired, loaded=found, **result)])
    print(f"{writer}: {loaded} of {fired} kills: {found}", flush=True)


if __name__ == "__main__":
    main()
