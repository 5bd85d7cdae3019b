"""The error and the state after a PyTorch call when a worker dies, hangs or raises, and when the caller itself ends.

Bodies run in a caller of their own with three devices: this is rank 0, its workers are ranks 1 and 2. Batches have 30 rows, ten
per rank, so row `30 * step + 10 * rank` decides which rank has a planted failure, and when. A failure first writes the time of
the machine's monotonic clock to a file: no file, no failure.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.client import ROOT, Worker
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="worker processes need Linux"),
]

HANG_SECONDS = 4.0
STEP = 2  # the step that fails: two have been finished


@pytest.fixture(scope="module")
def caller() -> Iterator[Worker]:
    skip_unless_installed("torch")
    worker = Worker("torch", 3, {"ABREAST_HANG_SECONDS": str(HANG_SECONDS)})
    yield worker
    left = worker.close()
    assert not left, f"left behind: {left}"


# A worker fails.


@pytest.mark.in_turn
def test_a_killed_worker_ends_the_call_and_is_named(caller: Worker) -> None:
    end = caller.run(end_of_fit, signals=(STEP - 1, 2, signal.SIGKILL))
    assert end["kinds"][0] == "WorkerError"
    assert end["rank"] == 2
    assert "killed (signal 9), perhaps out of memory" in end["message"]
    assert "hint:" in end["message"]
    assert end["seconds"] < prompt_seconds()
    assert_usable(end)


@pytest.mark.in_turn
def test_a_worker_that_dies_while_no_step_runs_ends_the_next_step(caller: Worker) -> None:
    """New workers would have other random states, and none of the gradients that waited."""
    end = caller.run(end_of_fit, signals=(STEP - 1, 2, signal.SIGKILL), waits=True)
    assert (end["kinds"][0], end["rank"]) == ("WorkerError", 2)
    assert "killed (signal 9), perhaps out of memory" in end["message"]
    assert_usable(end)


@pytest.mark.in_turn
def test_a_worker_that_dies_between_two_fits_is_named_by_the_second(caller: Worker) -> None:
    end = caller.run(end_of_fit_after_a_death)
    assert (end["kinds"][0], end["rank"]) == ("WorkerError", 1)
    assert end["next_difference"] > 0


@pytest.mark.in_turn
def test_a_stopped_worker_is_named_when_its_time_is_up_and_not_before(caller: Worker) -> None:
    end = caller.run(end_of_fit, signals=(STEP - 1, 1, signal.SIGSTOP))
    assert end["rank"] == 1
    assert "stopped answering for 4 s" in end["message"]
    # Its last sign of life is up to half a second older than the signal.
    assert HANG_SECONDS - 0.7 < end["seconds"] < HANG_SECONDS + prompt_seconds()
    assert_usable(end)


@pytest.mark.in_turn
def test_a_stopped_worker_that_goes_on_in_time_is_not_blamed(caller: Worker) -> None:
    """The negative control of the test before: without a limit, the stop is not noticed."""
    assert caller.run(seconds_of_fit_with_a_pause, pause_seconds=HANG_SECONDS + 2) >= HANG_SECONDS + 2


@pytest.mark.in_turn
def test_the_rank_that_loops_is_named_and_not_the_waiting_ones(caller: Worker, tmp_path: Path) -> None:
    end = caller.run(end_of_fit, trap="loop", rank=2, fired=str(tmp_path / "fired"))
    assert end["rank"] == 2
    assert "did not finish its step for 4 s" in end["message"]
    assert HANG_SECONDS - 0.7 < end["seconds"] < HANG_SECONDS + prompt_seconds()
    assert_usable(end)


@pytest.mark.in_turn
def test_an_exception_on_a_worker_arrives_with_its_traceback(caller: Worker, tmp_path: Path) -> None:
    end = caller.run(end_of_fit, trap="raise", rank=1, fired=str(tmp_path / "fired"))
    assert end["kinds"][0] == "WorkerError"
    assert end["rank"] == 1
    assert "planted in a layer" in end["message"]
    assert f'{Path(__file__).name}", line {line_of("planted in a layer")}, in spring' in end["remote_traceback"]
    assert end["seconds"] < prompt_seconds()
    assert_usable(end)


@pytest.mark.in_turn
def test_a_large_model_trains_on_while_the_error_of_a_failure_is_kept(caller: Worker, tmp_path: Path) -> None:
    """DDP waits for the backward that does not come, and lives as long as the traceback: in a notebook, for good."""
    end = caller.run(end_of_fit, trap="raise", rank=0, fired=str(tmp_path / "fired"), large=True)
    assert end["kinds"][0] == "ValueError", end["message"]
    assert_usable(end)


@pytest.mark.in_turn
def test_an_exception_on_rank_0_is_the_users_own(caller: Worker, tmp_path: Path) -> None:
    end = caller.run(end_of_fit, trap="raise", rank=0, fired=str(tmp_path / "fired"))
    assert end["kinds"][0] == "ValueError"
    assert "planted in a layer" in end["message"]
    assert f"{Path(__file__).name}:{line_of('planted in a layer')}" in end["frames"]
    assert end["seconds"] < prompt_seconds()
    assert_usable(end)


@pytest.mark.in_turn
def test_a_worker_that_exits_is_named_with_its_code(caller: Worker, tmp_path: Path) -> None:
    end = caller.run(end_of_fit, trap="exit", rank=1, fired=str(tmp_path / "fired"))
    assert end["rank"] == 1
    assert "ended with exit code 137" in end["message"]
    assert end["seconds"] < prompt_seconds()
    assert_usable(end)


@pytest.mark.in_turn
def test_a_failing_predict_leaves_the_weights_as_they_are(caller: Worker, tmp_path: Path) -> None:
    end = caller.run(end_of_predict, fired=str(tmp_path / "fired"))
    assert end["rank"] == 2
    assert "planted in a layer" in end["message"]
    assert end["difference"] == 0.0


@pytest.mark.in_turn
def test_a_long_first_step_raises_no_alarm(caller: Worker, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    assert caller.run(seconds_of_first_step, fired=str(fired)) >= 3 * HANG_SECONDS
    assert fired.exists()


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_each_of_twenty_kills_at_random_moments_is_survived(caller: Worker) -> None:
    seconds = []
    for seed in range(20):
        drawn = random.Random(seed)
        rank, after = drawn.choice((1, 2)), drawn.uniform(0.0, 1.5)
        end = caller.run(end_of_interrupted_fit, rank=rank, after_seconds=after)
        assert (end["rank"], end["finite"], end["left"]) == (rank, True, []), f"seed {seed}: {end}"
        seconds.append(end["seconds"])
    print(f"20 of 20 kills named; seconds: median {sorted(seconds)[10]:.2f}, largest {max(seconds):.2f}")
    assert max(seconds) < prompt_seconds()


# The caller fails, or ends.


@pytest.mark.parametrize("kind", ["KeyError", "KeyboardInterrupt"])
def test_an_exception_in_a_callback_keeps_the_workers(caller: Worker, kind: str) -> None:
    end = caller.run(end_of_fit, callback_raises=kind)
    assert end["kinds"][0] == kind
    assert end["same_workers"]
    assert_usable(end, workers_end=False)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Script]]:
    """Three scripts that train until something stops them, all past their third step."""
    skip_unless_installed("torch")
    run = ["-m", "abreast", "run", "--cpu-devices", "2"]
    prefixes: dict[str, list[str]] = {"interrupted": [], "interrupted below abreast run": run, "killed": []}
    running: dict[str, Script] = {}
    try:
        for name, prefix in prefixes.items():
            running[name] = Script(tmp_path_factory.mktemp(name.replace(" ", "-")), prefix)
        yield running
    finally:
        for script in running.values():
            script.end()


class Script:
    """A script in a process of its own, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, prefix: list[str]) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        (folder / "script.py").write_text(_ENDLESS)
        self.errors = folder / "stderr"
        environment = {
            **os.environ,
            "KERAS_BACKEND": "torch",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT / "src"),
            "TMPDIR": str(self.temporary),
        }
        self.process = subprocess.Popen(
            [sys.executable, *prefix, str(folder / "script.py")],
            stdout=subprocess.PIPE,
            stderr=self.errors.open("w"),
            env=environment,
            text=True,
            start_new_session=True,  # a terminal sends Ctrl-C to a process group
        )

    def wait_until_it_trains(self) -> list[int]:
        """The workers' process ids."""
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words[:1] == ["training"], self.errors.read_text()
        return [int(word) for word in words[1:]]

    def interrupt(self) -> tuple[float, int]:
        """Press Ctrl-C until the script ends: again where Python says that it lost one. Seconds of the last; how many."""
        for times in (1, 2, 3):
            started = time.monotonic()
            os.killpg(self.process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
                return time.monotonic() - started, times
            if self.errors.read_text().count("Exception ignored in") < times:
                break
        os.kill(self.process.pid, signal.SIGUSR2)
        time.sleep(1)
        raise AssertionError(f"it did not end; {self.errors.read_text()}")

    def leaves_nothing(self, workers: list[int]) -> None:
        wait_until(lambda: not any(map(runs, workers)))
        left = [path.name for path in self.temporary.iterdir()]
        assert [name for name in left if not name.startswith("torchinductor_")] == []  # its cache, kept by intent

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


# PyTorch imports tabulate when Python ends, if it is installed; then Python forgets that Ctrl-C ended it, and exits with 1.
_ENDLESS = """
import faulthandler
import signal
import sys
import time
faulthandler.register(signal.SIGUSR2)
sys.modules["tabulate"] = None
import abreast
abreast.use_cpu_devices(2)
import keras
import numpy as np
from abreast.backend.torch.backend import BACKEND

class Say(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)  # leave the cores to the others
        if batch == 2:
            print("training", *BACKEND.leader.team.job.pids.values(), flush=True)

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
model.compile("sgd", "mse")
abreast.parallelize(model, devices=2)
rows = np.ones((8, 4), "float32")
batches = ((rows, rows[:, :3]) for _ in iter(int, 1))
model.fit(batches, steps_per_epoch=10**9, verbose=0, callbacks=[Say()])
"""


@pytest.mark.in_turn
@pytest.mark.parametrize(("name", "code"), [("interrupted", -signal.SIGINT), ("interrupted below abreast run", 130)])
def test_control_c_gives_the_prompt_back_and_leaves_nothing(scripts: dict[str, Script], name: str, code: int) -> None:
    script = scripts[name]
    workers = script.wait_until_it_trains()
    assert workers and all(map(runs, workers))
    seconds, times = script.interrupt()
    assert script.process.returncode == code
    # Measured 2.5, of which torch's own end of the interpreter takes 1.3.
    assert seconds < prompt_seconds()
    assert script.errors.read_text().count("KeyboardInterrupt") == times
    script.leaves_nothing(workers)


def test_nothing_is_left_when_the_caller_is_killed(scripts: dict[str, Script]) -> None:
    script = scripts["killed"]
    workers = script.wait_until_it_trains()
    assert workers and all(map(runs, workers))
    # What has no name in the file system cannot be left there.
    assert not named_shared_memory([script.process.pid, *workers])
    script.process.kill()
    assert script.process.wait(10) == -signal.SIGKILL
    script.leaves_nothing(workers)


def test_a_forked_child_leaves_the_workers_to_its_parent(caller: Worker) -> None:
    end = caller.run(fit_around_a_fork)
    assert end == {"child_exit_codes": [0, 0], "same_workers": True}


@pytest.mark.in_turn
def test_starting_and_ending_teams_leaks_nothing(caller: Worker) -> None:
    growth = caller.run(growth_over_teams, cycles=2)
    assert max(growth.values()) <= 0, growth  # less where the tests before left something to collect


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_twenty_teams_leak_nothing(caller: Worker) -> None:
    growth = caller.run(growth_over_teams, cycles=20, timeout_seconds=1100)
    assert max(growth.values()) <= 0, growth


# What the tests share.


def prompt_seconds() -> float:
    """The promised limit for a death or an exception, on a machine that is not busy; longer on one that is."""
    return 5.0 * max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def assert_usable(end: dict[str, Any], workers_end: bool = True) -> None:
    """The model has the weights of two steps, and trains on."""
    assert end["difference"] < 1e-6  # measured 0; 1e-2 and more between two steps
    assert end["next_difference"] > 1e-4
    assert end["left"] == [] or not workers_end


def line_of(words: str) -> int:
    """The number of the line of this file that raises `words`."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f'raise ValueError("{words}")' in line)


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def named_shared_memory(pids: list[int]) -> list[str]:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return [line for line in lines if "/dev/shm/" in line]


# Bodies, for the caller.


def task(trap: str = "", fired: str = "", large: bool = False) -> tuple[Any, Any, Any]:
    """A model with a layer that does what `trap` says at a large value, and 150 rows: five steps.

    If it is large, its loss does so on rank 0: every rank computes a loss of the user's over all rows.
    """
    import keras
    import numpy as np

    import abreast

    keras.utils.set_random_seed(7)

    class Trap(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, x: Any) -> Any:
            if float(x.max()) > 50:
                spring(trap, fired)
            return x

    def trapped_loss(y_true: Any, y_pred: Any) -> Any:
        if float(y_true.max()) > 50 and abreast.rank() == 0:
            spring(trap, fired)
        return keras.losses.mean_squared_error(y_true, y_pred)

    def spring(trap: str, fired: str) -> None:
        if os.path.exists(fired):
            return
        with open(fired, "w") as file:
            file.write(str(time.monotonic()))
        if trap == "raise":
            raise ValueError("planted in a layer")
        if trap == "exit":
            os._exit(137)
        if trap == "sleep":
            time.sleep(3 * HANG_SECONDS)
        while trap == "loop":
            pass

    hidden = [keras.layers.Dense(5), keras.layers.BatchNormalization()]
    if large:
        hidden = [keras.layers.Dense(30_000), keras.layers.Reshape((6_000, 5)), keras.layers.GlobalAveragePooling1D()]
    layers = [Trap(), *hidden, keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), trapped_loss if large else "mse", metrics=["mae"])
    draws = np.random.default_rng(1)
    x, y = draws.normal(size=(150, 4)).astype("float32"), draws.normal(size=(150, 3)).astype("float32")
    return abreast.parallelize(model, devices=3), x, y


def options(**more: Any) -> dict[str, Any]:
    return {"batch_size": 30, "shuffle": False, "verbose": 0, **more}


def team() -> Any:
    from abreast.backend.torch.backend import BACKEND

    return BACKEND.leader.team


def end_team() -> None:
    if team() is not None:
        team().close()


def workers_of_team() -> dict[int, int]:
    return dict(team().job.pids)


def end_of_fit(
    trap: str = "",
    rank: int = 0,
    fired: str = "",
    signals: tuple[int, int, int] | None = None,
    callback_raises: str = "",
    large: bool = False,
    waits: bool = False,
) -> dict[str, Any]:
    """How a fit ends that fails at `STEP`, and how the model stands then."""
    model, x, y = task(trap, fired, large)
    if trap:
        (y if large else x)[30 * STEP + 10 * rank, 0] = 100.0
    planted = plant(signals, callback_raises, waits)
    workers: dict[int, int] = {}
    try:
        model.fit(x, y, callbacks=[planted], **options())
    except BaseException as error:
        ended = time.monotonic()
        workers = planted.workers
        end, kept = description(error), error
    else:
        raise AssertionError("fit did not fail")
    end["seconds"] = ended - (float(Path(fired).read_text()) if fired else planted.time)
    after = model.get_weights()
    left = still_running(workers) if not callback_raises else []
    finished, x, y = task(large=large)
    finished.fit(x[: 30 * STEP], y[: 30 * STEP], **options())
    end["difference"] = largest_difference(after, finished.get_weights())
    end["same_workers"] = workers_of_team() == workers
    model.fit(x, y, **options())  # the same object goes on
    end["next_difference"] = largest_difference(after, model.get_weights())
    del kept
    return end | {"left": left}


def end_of_fit_after_a_death() -> dict[str, Any]:
    model, x, y = task()
    model.fit(x, y, **options())
    os.kill(workers_of_team()[1], signal.SIGKILL)
    team().job.wait_for_failure()
    before = model.get_weights()
    try:
        model.fit(x, y, **options())
    except Exception as error:
        end = description(error)
    else:
        raise AssertionError("fit did not fail")
    model.fit(x, y, **options())
    return end | {"next_difference": largest_difference(before, model.get_weights())}


def plant(signals: tuple[int, int, int] | None, callback_raises: str, waits: bool = False) -> Any:
    """A callback that sends a signal to a worker after a step, or raises when `STEP` begins.

    `waits`: it also waits until the worker's end is known.
    """
    import builtins

    import keras

    class Plant(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.time = 0.0
            self.workers: dict[int, int] = {}

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.workers = workers_of_team()
            if signals is not None and batch == signals[0]:
                os.kill(self.workers[signals[1]], signals[2])
                self.time = time.monotonic()
                if waits:
                    team().job.wait_for_failure()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if callback_raises and batch == STEP:
                self.time = time.monotonic()
                raise getattr(builtins, callback_raises)("planted in a callback")

    return Plant()


def description(error: BaseException) -> dict[str, Any]:
    import traceback

    return {
        "kinds": [kind.__name__ for kind in type(error).__mro__],
        "message": str(error),
        "rank": getattr(error, "rank", None),
        "remote_traceback": getattr(error, "remote_traceback", None),
        "frames": [
            f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
        ],
    }


def still_running(workers: dict[int, int]) -> list[int]:
    """Processes that still run some time after a failure."""
    deadline = time.monotonic() + 5.0
    while (left := [pid for pid in workers.values() if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def end_of_predict(fired: str) -> dict[str, Any]:
    model, x, y = task("raise", fired)
    model.fit(x, y, **options())
    before = model.get_weights()
    x[30 * STEP + 20, 0] = 100.0
    try:
        model.predict(x, batch_size=30, verbose=0)
    except Exception as error:
        return description(error) | {"difference": largest_difference(before, model.get_weights())}
    raise AssertionError("predict did not fail")


def with_hang_seconds(seconds: str, work: Callable[[], float]) -> float:
    """The result of `work` with its own team, which has this limit."""
    before = os.environ["ABREAST_HANG_SECONDS"]
    end_team()
    os.environ["ABREAST_HANG_SECONDS"] = seconds
    try:
        return work()
    finally:
        os.environ["ABREAST_HANG_SECONDS"] = before
        end_team()


def seconds_of_first_step(fired: str) -> float:
    model, x, y = task("sleep", fired)
    x[10, 0] = 100.0  # rank 1, first step
    started = time.monotonic()
    model.fit(x, y, **options())
    return time.monotonic() - started


def seconds_of_fit_with_a_pause(pause_seconds: float) -> float:
    import threading

    def work() -> float:
        model, x, y = task()
        planted = plant((1, 1, signal.SIGSTOP), "")
        model.fit(x, y, **options())  # no first step, which has time
        threading.Timer(pause_seconds, lambda: os.kill(planted.workers[1], signal.SIGCONT)).start()
        started = time.monotonic()
        model.fit(x, y, callbacks=[planted], **options())
        return time.monotonic() - started

    return with_hang_seconds("1000", work)


def end_of_interrupted_fit(rank: int, after_seconds: float) -> dict[str, Any]:
    """A worker is killed at some moment of a fit without end."""
    import threading

    import numpy as np

    model, x, y = task()
    model.fit(x, y, **options())
    workers, moment = workers_of_team(), []

    def kill() -> None:
        moment.append(time.monotonic())
        os.kill(workers[rank], signal.SIGKILL)

    threading.Timer(after_seconds, kill).start()
    try:
        model.fit(x, y, epochs=10**6, **options())
    except Exception as error:
        end = description(error) | {"seconds": time.monotonic() - moment[0]}
    finite = all(np.isfinite(weight).all() for weight in model.get_weights())
    return end | {"left": still_running(workers), "finite": finite}


def fit_around_a_fork() -> dict[str, Any]:
    import multiprocessing

    model, x, y = task()
    model.fit(x, y, **options())
    workers = workers_of_team()
    child = os.fork()
    if child == 0:
        os._exit(0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
    process = multiprocessing.get_context("fork").Process(target=time.monotonic)  # its end runs finalizers
    process.start()
    process.join(30)
    codes.append(-1 if process.exitcode is None else process.exitcode)
    model.fit(x, y, **options())
    return {"child_exit_codes": codes, "same_workers": workers_of_team() == workers and team().job.failure is None}


def growth_over_teams(cycles: int) -> dict[str, int]:
    """The resources that a process holds after `cycles` teams beyond those after one."""
    import gc

    import abreast

    def cycle() -> None:
        model, x, y = task()
        abreast.parallelize(model, devices=2)
        model.fit(x[:30], y[:30], **options())
        team().close()

    def holdings() -> dict[str, int]:
        gc.collect()
        this = psutil.Process()
        regions = Path("/proc/self/maps").read_text().count("memfd:abreast")
        children = len(this.children(recursive=True))
        return {"fds": this.num_fds(), "threads": this.num_threads(), "children": children, "regions": regions}

    cycle()
    before = holdings()
    for _ in range(cycles):
        cycle()
    return {name: count - before[name] for name, count in holdings().items()}
