"""Runs on Ray as far as no Ray is needed: options, what would be asked, the script's process, errors. See `test_real_ray.py`."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from abreast.cli import main
from abreast.errors import BackendError, LaunchError, NotInstalledError, WorkerError
from abreast.ray.child import Child
from abreast.ray.cluster import Request
from abreast.ray.failure import ScriptFailed, translated
from abreast.ray.installed import ray_train
from abreast.ray.script import Script
from abreast.run import RunOptions
from tests.harness.client import ROOT


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that `make test` sets would travel."""
    for name in [name for name in os.environ if name.startswith("ABREAST_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`train.py` in the folder of this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAY_ADDRESS", "KERAS_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text("")
    return tmp_path / "train.py"


def error_of(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["run", *words]) == 2
    return capsys.readouterr().err


def test_a_dry_run_prints_what_ray_would_be_asked_for(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--ray --hosts 4 --gpus-per-host 8 --devices 0,2 --no-check-rows --dry-run --json train.py --epochs 3"
    assert main(["run", *words.split()]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "launcher": "ray",
        "cluster": "that of this machine",
        "hosts": 4,
        "gpus_per_host": 8,
        "placement": "STRICT_SPREAD",
        "start_timeout_seconds": 300.0,
        "folder": str(script.parent),
        "command": "abreast run --devices 0,2 --no-check-rows train.py --epochs 3",
        "variables": None,
    }


def test_a_dry_run_as_text_leaves_the_gpus_to_the_hosts(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["RAY_ADDRESS"] = "10.0.0.1:6379"  # the fixture removes it
    assert main(["run", "--ray", "--hosts", "2", "--dry-run", "train.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["cluster", "10.0.0.1:6379"],
        ["hosts", "2"],
        ["gpus_per_host", "all"],
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--ray", "train.py"], "--ray needs a number of hosts\nhint: as in `abreast run --ray --hosts 2 train.py`"),
        (["--ray", "--hosts", "two", "train.py"], "--hosts 'two' is not a number"),
        (["--ray", "--hosts", "0", "train.py"], "--hosts 0 is not a valid number of hosts"),
        (
            ["--ray", "--hosts", "1", "--gpus-per-host", "-1", "train.py"],
            "--gpus-per-host -1 is not a valid number of GPUs",
        ),
        (["--gpus-per-host", "2", "train.py"], "--gpus-per-host is for runs on Ray\nhint: add --ray, or leave it out"),
        (["--ray", "--hosts", "2", "--this", "0", "train.py"], "--this is for hosts without a launcher"),
        (["--start-timeout", "5", "train.py"], "--start-timeout is for runs on Ray"),
        (["--ray", "--hosts", "2", "--json", "train.py"], "--json is for what --dry-run prints"),
        (["--ray", "--hosts", "2", "missing.py"], "there is no script 'missing.py'"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    script: Path, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"abreast: error: {text}" in error_of(*words, capsys=capsys)


def test_without_ray_an_error_names_the_extra(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotInstalledError, match=r"Ray is not installed\nhint: pip install .*\[ray\]"):
        ray_train()


def test_an_old_ray_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    (tmp_path / "ray.py").write_text("__version__ = '2.9.3'")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BackendError, match=r"Ray 2\.9\.3 is installed, and abreast needs 2\.51 or newer"):
        ray_train()
    monkeypatch.delitem(sys.modules, "ray")


def test_a_ray_without_what_its_trainers_need_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install ray` alone brings neither pydantic nor pyarrow."""
    for name in ("ray", "ray.train"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("__version__ = '2.60.0'")
    (tmp_path / "ray" / "train.py").write_text("import no_pydantic")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotInstalledError, match="Ray Train cannot be imported: No module named 'no_pydantic'"):
        ray_train()
    monkeypatch.delitem(sys.modules, "ray")


def test_the_options_of_a_script_arrive_as_they_were() -> None:
    from abreast.cli import all_commands
    from abreast.run_command import run_options

    options = RunOptions(
        devices=[0], backend="torch", check_numerics=True, check_rows=False, prefetch=1, input_timeout=2.5
    )
    words = Script("train.py", ("--devices", "9"), options, quiet=True).words()
    parsed = all_commands().parse_args(words)
    assert run_options(parsed) == RunOptions(**{**vars(options), "devices": "0,"})
    assert (parsed.quiet, parsed.script, parsed.arguments) == (True, "train.py", ["--devices", "9"])


def test_only_variables_of_keras_and_of_ours_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("ABREAST_HANG_SECONDS", "5")
    monkeypatch.setenv("ABREAST_RANK", "1")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    assert Script("train.py").environ.keys() == {"KERAS_BACKEND", "ABREAST_HANG_SECONDS"}


def test_a_script_is_found_in_the_folder_that_ray_ships(script: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("driver")
    assert Script("train.py", folder=str(script.parent)).folder_here() == str(script.parent)
    assert Script("train.py", folder="/no/such/folder").folder_here() == str(script.parent)
    assert Script("train.py", folder=str(elsewhere)).folder_here() == str(script.parent)
    with pytest.raises(LaunchError, match=r"has no script '/no/such/folder/other.py'\nhint: .*ray job submit"):
        Script("other.py", folder="/no/such/folder").folder_here()


# The process of the script

CHILD = """
import os, subprocess, sys, time
print("to stdout", flush=True)
print("to stderr", os.environ["GIVEN"], *sys.argv[1:], file=sys.stderr)
kept = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
print(kept.pid, flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""


def run_child(folder: Path, *arguments: str) -> tuple[int, dict[str, bytes], bytes]:
    (folder / "child.py").write_text(CHILD)
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "GIVEN": "here"}
    child = Child(["run", "--quiet", "child.py", *arguments], environ, str(folder))
    found = {"stdout": b"", "stderr": b""}

    def take(name: Any, data: bytes) -> None:
        found[name] += data

    return child.run(take), found, child.last


def test_the_process_of_a_script_gives_its_output_and_exit_code_and_ends_what_it_started(tmp_path: Path) -> None:
    returned, found, last = run_child(tmp_path, "0", "3")
    assert returned == 3
    text, pid = found["stdout"].split(b"\n")[:2]
    assert text == b"to stdout"
    assert found["stderr"] == b"to stderr here 0 3\n"
    assert b"to stderr" in last
    assert ends(int(pid))


def ends(pid: int, seconds: float = 20) -> bool:
    """Whether a process, which need not be a child, ends in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_the_process_of_a_script_ends_with_its_worker(tmp_path: Path) -> None:
    """A worker of Ray that is killed has no time to end anything."""
    code = "import sys; from tests.test_ray import run_child; from pathlib import Path; run_child(Path(sys.argv[1]), '600', '0')"
    worker = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    try:
        deadline = time.monotonic() + 60
        while not (children := psutil.Process(worker.pid).children(recursive=True)) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        worker.send_signal(signal.SIGKILL)
        assert ends(children[0].pid)
    finally:
        worker.kill()
        worker.wait()


# Errors


class WorkerGroupError(Exception):
    """As that of Ray Train."""

    def __init__(self, failures: dict[int, Exception]) -> None:
        super().__init__("Training failed due to worker errors")
        self.worker_failures = failures


class Wrapped(Exception):
    """As Ray's `UserExceptionWithTraceback`."""

    def __init__(self, error: Exception) -> None:
        self._base_exc = error


def failed(rank: int, returned: int, seconds: float, last: str | None = None) -> ScriptFailed:
    return ScriptFailed(rank, 3, f"n0{rank}", returned, last, seconds)


def test_the_script_that_failed_first_is_named_with_its_last_lines() -> None:
    errors = {0: failed(0, 1, 5.0), 1: failed(1, 3, 4.0, "Traceback ...\nValueError: bad\n")}
    found = translated(WorkerGroupError({rank: Wrapped(error) for rank, error in errors.items()}))
    assert found is errors[1]
    assert str(found) == (
        "the script ended with exit code 3 on rank 1 of 3, host n01; its last lines:\nTraceback ...\nValueError: bad"
    )
    assert errors[1].exit_code == 3


def test_a_script_that_was_killed_counts_before_those_that_complained() -> None:
    found = translated(WorkerGroupError({0: Wrapped(failed(0, 1, 3.0)), 2: Wrapped(failed(2, -9, 5.0))}))
    assert str(found) == "the script was ended by signal 9 on rank 2 of 3, host n02"
    assert isinstance(found, ScriptFailed) and found.exit_code == 137


def test_a_worker_that_is_gone_counts_before_all_others() -> None:
    found = translated(WorkerGroupError({0: Wrapped(failed(0, 1, 3.0)), 1: RuntimeError("The actor\ndied")}))
    assert isinstance(found, WorkerError) and found.rank == 1
    assert "Ray lost the worker of rank 1: The actor died" in str(found)


def test_other_errors_of_ours_arrive_as_they_are_and_those_of_ray_are_wrapped() -> None:
    ours = LaunchError("no script")
    assert translated(WorkerGroupError({0: Wrapped(ours)})) is ours
    assert str(translated(RuntimeError("no storage"))) == "Ray could not run the script: no storage"


def test_the_error_of_a_script_travels() -> None:
    error = failed(1, 3, 4.0, "last")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.exit_code, again.rank, again.order) == (str(error), 3, 1, error.order)


def test_a_request_says_what_it_asks_for() -> None:
    assert (str(Request(2)), Request(2).resources()) == ("2 hosts", {"CPU": 1})
    assert (str(Request(1, 8)), Request(1, 8).resources()) == ("1 host with 8 GPUs each", {"CPU": 1, "GPU": 8})
