"""`abreast run --ray` and `abreast.ray.trainer` on a real Ray of two emulated nodes. See `test_ray.py` for what needs none.

`make test-ray` installs Ray in an environment of its own and runs these; elsewhere they are skipped.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.harness.client import ROOT
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.harness.ray_nodes import Nodes, skip_unless_ray, two_nodes
from tests.test_ray import ends
from tests.test_world_torchrun import SCRIPT

pytestmark = pytest.mark.full
SECONDS = 600  # most of them on a busy machine

# Ends as its arguments say, on one rank.
QUICK = """
import os, sys, time
what, who = sys.argv[1:3]
rank = os.environ["RANK"]
print("rank", rank, os.getpid(), os.environ["MASTER_ADDR"], len(os.environ["ABREAST_SECRET"]), flush=True)
print("to stderr", file=sys.stderr)
assert "TF_USE_LEGACY_KERAS" not in os.environ
if what == "raise" and rank == who:
    raise ValueError("bad on purpose")
if what == "exit" and rank == who:
    sys.exit(7)
if what == "kill" and rank == who:
    while not os.path.exists("seen"):
        time.sleep(0.1)
    os.kill(os.getppid(), 9)
if what == "once" and not os.path.exists("tried"):
    open("tried", "w").close()
    sys.exit(3)
if what not in ("run", "once"):
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    skip_unless_ray()
    with two_nodes(tmp_path_factory.mktemp("ray")) as found:
        yield found


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    (tmp_path / "quick.py").write_text(QUICK)
    return tmp_path


def start(nodes: Nodes, folder: Path, *words: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "abreast", "run", "--quiet", "--ray", *words],
        cwd=folder,
        env={**nodes.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(nodes: Nodes, folder: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    """The exit code, stdout, and stderr."""
    with start(nodes, folder, *words, **environ) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    return process.returncode, output, errors


CPU = ("--hosts", "2", "--gpus-per-host", "0")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=getattr(pytest.mark, n)) for n in ("jax", "tensorflow", "torch")]
)
@pytest.mark.timeout(2 * SECONDS)
def test_an_unchanged_script_learns_on_two_hosts_what_it_learns_alone(name: str, nodes: Nodes, tmp_path: Path) -> None:
    skip_unless_installed(name)
    words = [str(ROOT / "examples" / "digits.py"), "--epochs", "1", "--output"]
    common = {"KERAS_BACKEND": name, "CUDA_VISIBLE_DEVICES": ""}
    plain = subprocess.run([sys.executable, *words, "plain"], cwd=tmp_path, env={**nodes.environ, **common}, check=True)
    assert plain.returncode == 0
    code, output, errors = run(nodes, tmp_path, *CPU, *words, "ray", **common)
    assert code == 0, errors
    assert output.count("test accuracy") == 1
    found = [np.load(tmp_path / folder / "predictions.npz")["predictions"] for folder in ("plain", "ray")]
    assert largest_difference(*found) < 1e-4


@pytest.mark.timeout(2 * SECONDS)
def test_the_output_of_rank_0_comes_alone_and_without_prefixes(nodes: Nodes, quick: Path) -> None:
    code, output, errors = run(nodes, quick, *CPU, "quick.py", "run", "0")
    assert code == 0, errors
    (line,) = output.splitlines()
    assert line.startswith("rank 0 ") and line.split()[3] in ("127.0.0.2", "127.0.0.3") and line.endswith(" 64")
    assert "to stderr\n" in errors and "RayTrainWorker" not in errors


@pytest.mark.timeout(2 * SECONDS)
def test_a_failure_names_the_rank_and_host_and_shows_its_last_lines(nodes: Nodes, quick: Path) -> None:
    code, _, errors = run(nodes, quick, *CPU, "quick.py", "raise", "1")
    assert code == 1
    assert "abreast: error: the script ended with exit code 1 on rank 1 of 2, host " in errors
    assert errors.endswith("ValueError: bad on purpose\n")


@pytest.mark.timeout(2 * SECONDS)
def test_the_exit_code_is_that_of_the_script(nodes: Nodes, quick: Path) -> None:
    code, _, errors = run(nodes, quick, *CPU, "quick.py", "exit", "0")
    assert code == 7, errors


@pytest.mark.timeout(2 * SECONDS)
def test_a_worker_that_is_killed_ends_all_scripts(nodes: Nodes, quick: Path) -> None:
    process = start(nodes, quick, *CPU, "quick.py", "kill", "1")
    assert process.stdout is not None
    line = process.stdout.readline()
    (quick / "seen").touch()
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "abreast: error: Ray lost the worker of rank 1 on 127.0.0." in errors
    assert line.startswith("rank 0 ")
    assert ends(int(line.split()[2]))
    assert scripts(quick) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.timeout(2 * SECONDS)
def test_scripts_end_with_the_command(number: signal.Signals, code: int, nodes: Nodes, quick: Path) -> None:
    with start(nodes, quick, *CPU, "quick.py", "wait", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("rank 0 ")
        running = wait_for_scripts(quick)
        process.send_signal(number)
        assert all(ends(pid, 10) for pid in running)
        assert process.wait(30) == code


def scripts(folder: Path) -> list[int]:
    """The processes that run `quick.py` in a folder, without their drivers."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and "quick.py" in process.cmdline() and "--ray" not in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_for_scripts(folder: Path) -> list[int]:
    deadline = time.monotonic() + 60
    while len(found := scripts(folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(found) == 2
    return found


def test_more_hosts_than_there_are_end_in_words(nodes: Nodes, quick: Path) -> None:
    code, _, errors = run(nodes, quick, "--hosts", "3", "--start-timeout", "2", "quick.py", "run", "0")
    assert code == 2
    assert (
        "abreast: error: Ray did not start the script on 3 hosts with 2 GPUs each within 2 s: "
        "of 2 hosts in the cluster, 2 have 1 CPU and 2 GPUs; free in all: 4 CPUs and 4 GPUs\nhint: ask for" in errors
    )


def test_a_cluster_that_is_not_there_is_named(nodes: Nodes, quick: Path) -> None:
    code, _, errors = run(nodes, quick, "--hosts", "2", "quick.py", "run", "0", RAY_ADDRESS="127.0.0.1:9")
    assert code == 2
    assert "no Ray cluster can be reached at RAY_ADDRESS=127.0.0.1:9: " in errors


# From Python

TRAINER = """
import abreast.ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
hosts = ScalingConfig(num_workers=2)
trainer = abreast.ray.trainer("quick.py", ["once", 0], scaling_config=hosts, run_config=RunConfig(
    failure_config=FailureConfig(max_failures=1)))
print(trainer.fit().error)
"""


def python(nodes: Nodes, folder: Path, code: str, **environ: str) -> tuple[int, str, str]:
    """A driver."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**nodes.environ, "KERAS_BACKEND": "torch", **environ},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.timeout(2 * SECONDS)
def test_a_trainer_starts_a_failed_script_again(nodes: Nodes, quick: Path) -> None:
    code, output, errors = python(nodes, quick, TRAINER)
    assert code == 0, errors
    assert (quick / "tried").exists()
    assert "None" in output.splitlines()


# JaxTrainer sets no variables, so the script takes its number from Ray.
LOOP = """
import re, sys
import ray
from ray.train import RunConfig, ScalingConfig
from {module} import {trainer}

def loop(config):
    sys.argv = ["train.py", "abreast", OUT]
    exec(config["script"], {{"__name__": "__main__", "ray": ray}})

script = {before!r} + re.sub("rank = int.*", "rank = ray.train.get_context().get_world_rank()", open("train.py").read())
{trainer}(loop, train_loop_config={{"script": script}},
    scaling_config=ScalingConfig(num_workers=2{scaling})).fit()
"""


# The user gives the workers of TorchTrainer a secret; for JaxTrainer, Ray brings rank 0's to the others.
JOINS = "import os, abreast\nassert 'ABREAST_SECRET' not in os.environ\nabreast.DataParallel()\n"
SECRET = {"ABREAST_SECRET": secrets.token_hex(32)}


@pytest.mark.parametrize(
    ("backend", "module", "trainer", "before", "environ"),
    [
        pytest.param("torch", "ray.train.torch", "TorchTrainer", "", SECRET, marks=pytest.mark.torch),
        pytest.param("jax", "ray.train.v2.jax", "JaxTrainer", JOINS, {}, marks=pytest.mark.jax),
    ],
)
@pytest.mark.timeout(2 * SECONDS)
def test_a_loop_of_a_trainer_finds_its_ranks(
    backend: str, module: str, trainer: str, before: str, environ: dict[str, str], nodes: Nodes, tmp_path: Path
) -> None:
    skip_unless_installed(backend)
    found = in_loop(nodes, tmp_path, module, trainer, before=before, KERAS_BACKEND=backend, **environ)
    for rank in found[1:]:
        for name in ("history", "predicted", "weights"):
            assert largest_difference(found[0][name], rank[name]) < 1e-5, name


@pytest.mark.jax
@pytest.mark.timeout(2 * SECONDS)
def test_a_loop_of_a_jax_trainer_with_gpus_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    """Ray joins the processes where there are GPUs. The nodes have none: JAX_PLATFORMS lets it do so on the CPU."""
    skip_unless_installed("jax")
    common = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    text = r"jax.distributed.initialize was called before(.|\n)*hint: leave out Ray's JaxTrainer"
    with pytest.raises(AssertionError, match=text):
        in_loop(nodes, tmp_path, "ray.train.v2.jax", "JaxTrainer", scaling=", use_gpu=True", **common)


def in_loop(
    nodes: Nodes, folder: Path, module: str, trainer: str, before: str = "", scaling: str = "", **environ: str
) -> list[Any]:
    """What a process alone found, then what each rank of a loop found."""
    (folder / "train.py").write_text(SCRIPT)
    for name in ("alone", "ranks"):
        (folder / name).mkdir()
    code = LOOP.format(module=module, trainer=trainer, before=before, scaling=scaling).replace(
        "OUT", repr(str(folder / "ranks"))
    )
    plain = [sys.executable, "train.py", "plain", str(folder / "alone")]
    subprocess.run(
        plain, cwd=folder, env={**nodes.environ, "KERAS_BACKEND": "torch", **environ}, check=True, timeout=SECONDS
    )
    runtime = {"env_vars": {"KERAS_BACKEND": "torch", **environ}}
    returned, _, errors = python(nodes, folder, f"import ray; ray.init(runtime_env={runtime})" + code, **environ)
    assert returned == 0, errors[-4000:]
    files = [*sorted((folder / "alone").iterdir()), *sorted((folder / "ranks").iterdir())]
    assert len(files) == 3
    return [json.loads(file.read_text()) for file in files]
