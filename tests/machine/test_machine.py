"""`abreast machine` on the machine of the tests: existing hardware is measured, and every key is documented."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from abreast import cli
from abreast.errors import DataError
from abreast.machine import host_speeds, machine
from tests.harness.client import ROOT
from tests.harness.folder import Folder

BANDWIDTHS = ("memory_copy", "loopback", "disk_write", "disk_read")


@pytest.mark.in_turn
def test_existing_hardware_is_measured_and_every_key_documented(folder: Folder, backend: str) -> None:
    result = folder.abreast("machine", "-o", "machine.json", "--backend", backend, "--cpu-devices", "2")
    assert result.code == 0, result.err
    assert result.out == ""
    found = json.loads((folder.path / "machine.json").read_text())
    check(found)
    assert {entry["devices"] for entry in found["all_reduce"]} == {2}
    assert {entry["backend"] for entry in found["all_reduce"]} == {backend}
    sizes = [entry["bytes"] for entry in found["all_reduce"]]
    assert sizes == sorted(sizes) and sizes[0] == 4096
    for entry in found["all_reduce"]:
        assert entry["bus_bytes_per_second"] == pytest.approx(entry["bytes"] / entry["seconds"])
    assert "abreast: measuring all-reduce" in result.err
    assert "abreast: wrote machine.json" in result.err
    assert [path.name for path in folder.path.iterdir() if path.name.startswith(".abreast")] == []
    planned = folder.abreast("plan", "--machine", "machine.json", "--parameters", "1e6", "--step-time", "0.1")
    assert planned.code == 0, planned.err
    assert "parameters) on 2 simulated devices on" in planned.out


def check(found: dict[str, Any]) -> None:
    for name in BANDWIDTHS:
        assert 1e6 < found[f"{name}_bytes_per_second"] < 1e12
    assert 1e-7 < found["loopback_latency_seconds"] < 1e-2
    text = (ROOT / "docs/reference/machine.md").read_text()
    assert [key for key in found if f"`{key}`" not in text] == []
    numbers = [key for key, value in found.items() if isinstance(value, float)]
    assert [key for key in numbers if not re.search("_(bytes_per_second|seconds)$", key)] == []


def test_quick_lists_and_measures_nothing(folder: Folder) -> None:
    found = json.loads(folder.abreast("machine", "--quick").out)
    assert found["gpus"] == found["links"] == []
    assert found["cores"] >= 1
    assert not [key for key in found if key.endswith("_per_second")]


def test_numa_nodes_are_what_linux_lists(tmp_path: Path) -> None:
    for node, cores in ((0, "0-7"), (1, "8-15"), (10, "16-23")):
        (tmp_path / f"sys/devices/system/node/node{node}").mkdir(parents=True)
        (tmp_path / f"sys/devices/system/node/node{node}/cpulist").write_text(cores + "\n")
    assert machine.numa_nodes(tmp_path) == [
        {"node": 0, "cores": "0-7"},
        {"node": 1, "cores": "8-15"},
        {"node": 10, "cores": "16-23"},
    ]


def test_a_slow_disk_is_measured_as_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 16 << 20
    plain = os.readv

    def slow(descriptor: int, buffers: Any) -> int:
        time.sleep(0.2)
        return plain(descriptor, buffers)

    monkeypatch.setattr(os, "readv", slow)
    found = host_speeds.disk(tmp_path, size)
    assert found["disk_read_bytes_per_second"] < size / 0.4  # two reads and the one that ends it
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot measure the disk of"):
        host_speeds.disk(tmp_path / "none")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cpu-devices", "0"], "--cpu-devices 0 is not allowed\nhint: give a whole number, at least 1"),
        (["--disk", "nowhere"], "--disk nowhere: there is no such folder"),
        (["-o", "nowhere/machine.json"], "cannot write to nowhere/machine.json: there is no folder"),
    ],
)
def test_an_invalid_request_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["machine", *arguments]) == 2
    assert f"abreast: error: {said}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.in_turn
def test_a_backend_that_dies_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CPU_SIZES", ["not a size"])
    facts = machine._all_reduce([], "jax", 2)
    assert list(facts) == ["notes"]
    assert facts["notes"][0].startswith("all-reduce was not measured: ")


class Stopped:
    """A socket in whose so-manieth message the user types Ctrl-C."""

    def __init__(self, end: socket.socket, messages: int) -> None:
        self._end, self._left = end, messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._end, name)

    def sendall(self, data: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        self._end.sendall(data)


@pytest.mark.parametrize("messages", [3, host_speeds._ROUND_TRIPS + 3], ids=["latency", "rate"])
def test_ctrl_c_while_a_link_is_measured_leaves_no_thread_and_no_traceback(messages: int) -> None:
    before = set(threading.enumerate())
    with host_speeds._connection() as (ours, theirs), pytest.raises(KeyboardInterrupt):
        host_speeds.connection(Stopped(ours, messages), theirs)  # type: ignore[arg-type]
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_a_connection_that_the_other_end_closes_is_an_error() -> None:
    with host_speeds._connection() as (ours, theirs):
        theirs.shutdown(socket.SHUT_RDWR)
        with pytest.raises(OSError, match=r"closed|Broken pipe|reset"):
            host_speeds.connection(ours, theirs)


def test_a_missing_loopback_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    monkeypatch.setattr(socket, "create_server", refuse)
    assert host_speeds.loopback() == {"notes": ["the loopback was not measured: Network is unreachable"]}
