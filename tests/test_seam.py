"""Every backend keeps the seam: the same checks on the fake one, in this process, and on each framework's, in a worker.

The checks are in `seam_checks.py`. Here too: tests for the fake backend only, and that a type checker compares the classes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.backend.contract import Backend
from abreast.backend.fake import FakeBackend, FakeInstruments, FakeModel, FakeSettings, PlainBatch
from abreast.errors import BackendError
from tests import seam_checks
from tests.harness.client import ROOT, Workers
from tests.seam_checks import RATE, Arrays, Seam, data, first_weights, learnt, placement_on, run

_IDS: dict[str, Any] = {"ids": lambda check: check.__name__}


class FakeSeam:
    """The fake backend for `seam_checks`."""

    def __init__(self, plan: FakeSettings | None = None) -> None:
        self.fake = FakeBackend(plan)
        self.backend: Backend[Any] = self.fake
        self.noise = FakeModel(first_weights())

    def model(self, weights: np.ndarray[Any, Any], steps_per_execution: int = 1) -> FakeModel:
        return FakeModel(weights.astype("float64"), RATE, steps_per_execution)

    def weights(self, model: FakeModel) -> np.ndarray[Any, Any]:
        return model.weights

    def batch(self, arrays: Arrays) -> PlainBatch:
        return PlainBatch(arrays)

    def held_bytes(self) -> int:
        return self.fake.staged_bytes

    def draw(self) -> list[float]:
        return [float(generator.random()) for generator in self.fake.generators]


@pytest.mark.parametrize("check", seam_checks.CHECKS, **_IDS)
def test_the_fake_backend_keeps_the_seam(check: Callable[[Seam], None]) -> None:
    check(FakeSeam())


@pytest.mark.parametrize("check", seam_checks.CHECKS, **_IDS)
def test_a_framework_keeps_the_seam(workers: Workers, check: Callable[[Seam], None]) -> None:
    workers.abreast.run(seam_checks.check_in_worker, name=check.__name__)


def test_the_fake_profiler_leaves_files(tmp_path: Path) -> None:
    seam_checks.a_trace_leaves_files_and_says_how_to_open_them(FakeSeam(), str(tmp_path))


def test_a_profiler_leaves_files(workers: Workers, tmp_path: Path) -> None:
    check = seam_checks.a_trace_leaves_files_and_says_how_to_open_them
    workers.abreast.run(seam_checks.check_in_worker, name=check.__name__, folder=str(tmp_path))


def test_the_checks_notice_a_step_that_does_not_sum() -> None:
    """The negative control: each device learns from the rows of the first one only."""

    class Alone(FakeBackend):
        def _step(self, kind: Any, model: Any, staged: Any) -> Any:
            staged.shards, staged.counts = staged.shards[:1], staged.counts[:1]
            return super()._step(kind, model, staged)

    seam = FakeSeam()
    seam.fake = seam.backend = Alone()
    with pytest.raises(AssertionError):
        seam_checks.a_step_learns_what_one_device_learns(seam)


def test_the_checks_notice_memory_that_is_kept() -> None:
    """The negative control: `discard` does nothing."""

    class Keeps(FakeBackend):
        def _discard(self, staged: Any) -> None:
            pass

    seam = FakeSeam()
    seam.fake = seam.backend = Keeps()
    with pytest.raises(AssertionError):
        seam_checks.discarded_batches_give_back_their_memory(seam)


def test_the_checks_notice_a_generator_that_is_left_out() -> None:
    """The negative control: the state holds the first device's generator only."""

    class Alone(FakeInstruments):
        def random_state(self, model: Any) -> list[Any]:
            return super().random_state(model)[:1]

    seam = FakeSeam()
    seam.fake.instruments = Alone(seam.fake)
    with pytest.raises(AssertionError):
        seam_checks.random_state_is_put_back(seam)


def test_a_step_that_a_test_lets_fail_leaves_the_weights_of_the_one_before() -> None:
    seam = FakeSeam(FakeSettings(step_fails={2: OSError("device 1 is gone")}))
    model = seam.model(first_weights())
    batches = [data(4, seed) for seed in range(4)]
    with pytest.raises(OSError, match="device 1 is gone"):
        run(seam, "train", model, placement_on(seam, 2), batches)
    assert np.allclose(model.weights, learnt(batches[:2])[0])
    assert seam.fake.log[-1] == "settle failed"
    assert seam.fake.staged_bytes == 0


def test_a_batch_that_a_test_lets_fail_is_not_staged() -> None:
    seam = FakeSeam(FakeSettings(put_fails={1: BackendError("no memory", "smaller batches")}))
    stage = seam.backend.stage(placement_on(seam, 2))
    put: Callable[[Any], Any] = stage.put
    put(seam.batch(data(4)))
    with pytest.raises(BackendError, match="no memory"):
        put(seam.batch(data(4)))
    assert seam.fake.staged_bytes == seam.batch(data(4)).num_bytes


def test_devices_take_the_time_that_a_test_chooses() -> None:
    """Device 0 takes 10 ms for each of 2 steps, device 1 takes 30."""
    seam = FakeSeam(FakeSettings(step_seconds=(0.01, 0.03)))
    placement = placement_on(seam, 2)
    start = time.perf_counter_ns()
    results = run(seam, "train", seam.model(first_weights()), placement, [data(4), data(4)])
    assert (time.perf_counter_ns() - start) / 1e9 < 0.02  # steps return before their devices are done
    mark = seam.backend.instruments.mark(results[-1])
    assert mark is not None
    first, second = ((end - start) / 1e9 for end in seam.backend.instruments.finished(mark))
    assert 0.02 <= first < 0.04
    assert 0.06 <= second < 0.08
    assert time.perf_counter_ns() >= start + 60e6


def test_steps_per_execution_go_together_on_the_fake_backend() -> None:
    """5 batches by 2 are 3 calls, the last one of a single batch."""
    seam = FakeSeam()
    model = seam.model(first_weights(), steps_per_execution=2)
    batches = [data(4, seed) for seed in range(5)]
    step, source = seam.backend.step_function("train", model, placement_on(seam, 2)).run, iter(batches)
    logs = [step(source)["loss"] for _ in range(3)]
    assert np.allclose(logs, [learnt(batches)[1][index] for index in (1, 3, 4)])


# A file, and what a type checker must notice in it: a right text, and a wrong one in its place.
_PLANTED = (
    ("jax/backend.py", "model: Any, placement: Placement, failed: bool", "model: Any, failed: bool"),
    ("tensorflow/instruments.py", "placement: Placement | None", "placement: Placement"),
    ("torch/instruments.py", "mark: torch.cuda.Event)", "mark: torch.cuda.Event, more: int)"),
    ("fake.py", "def device_names(self) -> tuple[str, ...]:", "def device_names(self) -> list[int]:"),
)


def test_a_type_checker_compares_each_backend_with_the_seam(tmp_path: Path) -> None:
    """Both runs look at the real registry; frameworks and Keras are left out, which takes a minute off."""
    assert _errors_in_registry(tmp_path, []) == []
    errors = _errors_in_registry(tmp_path, _PLANTED)
    for name in ("JaxBackend", "TensorFlowInstruments", "TorchInstruments", "FakeBackend"):
        assert any(f'incompatible type "{name}"' in line for line in errors), (name, errors)


def _errors_in_registry(folder: Path, planted: Sequence[tuple[str, str, str]]) -> list[str]:
    """The output of mypy for `registry.py`, which compares the classes, with these texts in place of others."""
    backend = ROOT / "src" / "abreast" / "backend"
    shadows = []
    for number, (file, right, wrong) in enumerate(planted):
        text = (backend / file).read_text()
        assert right in text, file
        shadow = folder / f"wrong{number}.py"
        shadow.write_text(text.replace(right, wrong))
        shadows += ["--shadow-file", str(backend / file), str(shadow)]
    settings = folder / "mypy.ini"
    settings.write_text(_SETTINGS.format(src=ROOT / "src"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [*command, *shadows, str(backend / "registry.py")], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode < 2, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("src/abreast/backend/registry.py")]


_SETTINGS = """
[mypy]
mypy_path = {src}
explicit_package_bases = true
ignore_missing_imports = true
[mypy-jax.*,keras.*,tensorflow.*,torch.*]
follow_imports = skip
"""
