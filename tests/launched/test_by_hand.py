"""The same command on each of two emulated hosts, without a launcher: `--hosts`, `--this` and a secret in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.slow_links import ADDRESSES, DEVICE, Namespace, NotPermitted, slow_link
from tests.harness.client import BACKENDS, ROOT
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import ended
from tests.test_world_torchrun import SCRIPT

HOSTS = ("--hosts", ",".join(ADDRESSES))


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Namespace, ...]]:
    try:
        with slow_link() as link:
            yield link.hosts
    except NotPermitted as error:
        pytest.skip(error.args[0])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return secret_in(tmp_path, "job.secret", "0123456789abcdef")


def secret_in(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.touch(0o600)
    file.write_text(f"{content}\n")
    return file


@pytest.fixture(autouse=True)
def _end_all() -> Iterator[None]:
    yield
    for process in _started:
        process.kill()
        process.wait(10)
    _started.clear()


_started: list[subprocess.Popen[str]] = []


def start(host: Namespace | None, *words: str, **environ: str) -> subprocess.Popen[str]:
    common = {"KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "ABREAST_JOIN_SECONDS": "60"}
    command = [sys.executable, "-m", "abreast", *words]
    process = subprocess.Popen(
        command if host is None else host.command(*command),
        env={**os.environ, **common, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _started.append(process)
    return process


def test_each_host_finds_its_number_and_may_come_late(hosts: tuple[Namespace, ...], secret: Path) -> None:
    words = ("devices", *HOSTS, "--secret-file", str(secret))
    second = start(hosts[1], *words)
    time.sleep(2)
    output, errors = ended(start(hosts[0], *words))
    assert errors == "" and ended(second) == ("", "")
    assert [line.split()[:2] for line in output.splitlines()[1:]] == [["0", ADDRESSES[0]], ["1", ADDRESSES[1]]]


def test_hosts_meet_over_ipv6(hosts: tuple[Namespace, ...], secret: Path) -> None:
    for number, host in enumerate(hosts, 1):
        host.run("ip", "-6", "address", "add", f"fd77::{number}/64", "dev", DEVICE, "nodad")
    words = ("devices", "--hosts", "[fd77::1],[fd77::2]", "--secret-file", str(secret), "--json")
    first, second = (start(host, *words) for host in hosts)
    output, errors = ended(first)
    assert errors == "" and ended(second) == ("", "")
    assert [each["host"] for each in json.loads(output)] == ["fd77::1", "fd77::2"]


@pytest.mark.in_turn
def test_another_secret_on_one_host_is_named_there(hosts: tuple[Namespace, ...], secret: Path, tmp_path: Path) -> None:
    other = secret_in(tmp_path, "other.secret", "fedcba9876543210")
    first = start(hosts[0], "devices", *HOSTS, "--secret-file", str(secret), ABREAST_JOIN_SECONDS="8")
    second = start(hosts[1], "devices", *HOSTS, "--secret-file", str(other))
    _, errors = ended(second)
    assert "the two do not know the same secret" in errors and second.returncode == 2
    _, errors = ended(first)
    assert f"refused a process at {ADDRESSES[1]}: it does not know the secret of this job\n" in errors
    assert "rank 1 of 2 did not reach rank 0 within 8 s" in errors and first.returncode == 2


def test_the_number_of_another_host_is_refused_before_it_connects(hosts: tuple[Namespace, ...], secret: Path) -> None:
    wrong = start(hosts[0], "devices", *HOSTS, "--secret-file", str(secret), "--this", "1")
    assert ended(wrong)[1] == (
        f"abreast: error: --this 1 (ABREAST_HOST_RANK) is {ADDRESSES[1]}, but this host has {ADDRESSES[0]}, number 0\n"
        "hint: give `--this 0` here, or leave it out\n"
    )
    assert wrong.returncode == 2


@pytest.mark.in_turn
@pytest.mark.parametrize("backend", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in BACKENDS])
def test_two_hosts_learn_what_one_process_learns(
    hosts: tuple[Namespace, ...], secret: Path, tmp_path: Path, backend: str
) -> None:
    """One process drives two devices of its host."""
    skip_unless_installed(backend)
    (tmp_path / "train.py").write_text(SCRIPT)
    script = (str(tmp_path / "train.py"), "plain")
    alone = start(None, "run", "--quiet", *script, KERAS_BACKEND=backend)
    by_hand = ("run", "--quiet", *HOSTS, "--secret-file", str(secret), "--cpu-devices", "2", *script)
    ranks = [start(host, *by_hand, KERAS_BACKEND=backend) for host in hosts]
    expected = json.loads(ended(alone, 400)[0])
    for rank in ranks:
        output, errors = ended(rank, 400)
        assert rank.returncode == 0, errors
        found = json.loads(output)
        for name in ("history", "predicted", "weights"):
            assert largest_difference(expected[name], found[name]) < 1e-5, name
