"""Machines: those that ship name the source of each fact, and an error in a JSON file is reported once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast.errors import DataError
from abreast.plan.machine import devices, find_machine, machine_from, machines, read_machine

GOOD: dict[str, Any] = {
    "name": "mine",
    "device": {"name": "X", "memory_bytes_per_second": 9e11, "peak_flops": {"fp32": 15e12}},
    "devices_per_host": 4,
    "device_link": {"kind": "pcie-peer", "bytes_per_second": 15.75e9, "latency_seconds": 1e-5},
    "network": {"kind": "tcp", "bytes_per_second": 1.25e9},
}


def test_every_fact_of_a_machine_that_ships_has_a_source() -> None:
    assert len(machines()) >= 15
    for machine in machines().values():
        assert machine.sources["device_link"]
        assert machine.network is None or machine.sources["network"]
    assert all(device.source for device in devices().values())


def test_a_machine_from_json_has_the_facts_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(GOOD))
    machine = find_machine(str(path))
    assert machine.devices_per_host == 4
    assert machine.device_link.bytes_per_second == 15.75e9
    assert machine.network is not None and machine.network.latency_seconds == 0.0
    assert machine.most_hosts is None


def test_a_device_may_be_one_that_ships() -> None:
    assert machine_from(GOOD | {"device": "V100"}).device.peak_flops["fp16"] == 125e12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name is ''"),
        ({"devices_per_host": 0}, "devices_per_host is 0"),
        ({"devices_per_host": 2.5}, "devices_per_host is 2.5"),
        ({"device": "V1000"}, "no GPU is called 'V1000'"),
        ({"device_link": {"kind": "cable", "bytes_per_second": 1e9}}, "of kind 'cable'"),
        ({"device_link": {"kind": "pcie", "bytes_per_second": -1e9}}, "bytes_per_second is -1e9|-1000000000"),
        ({"device_link": {"kind": "pcie", "bytes_per_second": 12}}, "12, beyond any link or memory"),
        ({"device_link": {"kind": "pcie", "gigabits_per_second": 100}}, "gigabits_per_second is in another unit"),
        (
            {"device_link": {"kind": "pcie", "bytes_per_second": 1e9, "latency_seconds": 20}},
            "latency_seconds is 20",
        ),
        ({"network": {"kind": "tcp"}}, "bytes_per_second is missing"),
        ({"network": "ethernet"}, "network is 'ethernet', not an object"),
        ({"assumed": 3}, "assumed is 3"),
        ({"assumed": [3]}, r"assumed is \[3\]"),
        (
            {"device": {"name": "X", "memory_bytes_per_second": 9e11, "memory_bytes": "16 GiB"}},
            "memory_bytes is '16 GiB'",
        ),
        ({"device": {"name": "X", "memory_bytes_per_second": 9e11, "shares_board": "no"}}, "shares_board is 'no'"),
        (
            {"device": {"name": "X", "memory_bytes_per_second": 9e11, "peak_flops": {"fp32": True}}},
            "peak_flops of fp32",
        ),
        ({"sources": []}, "sources is"),
        ({"shares_cores": "yes"}, "shares_cores is 'yes'"),
        ({"host_copy_bytes_per_second": 12}, "host_copy_bytes_per_second is 12, beyond any link"),
        ({"host_copy_gigabytes_per_second": 12}, "host_copy_gigabytes_per_second is in another unit"),
        ({"device": {"name": "X", "memory_bytes_per_second": 9e11, "peak_flops": 15e12}}, "peak_flops is 15"),
        ({"device": {"name": "X", "memory_bytes_per_second": 900}}, "900, beyond any link or memory"),
        (
            {"device": {"name": "X", "memory_bytes_per_second": 9e11, "memory_gigabytes_per_second": 900}},
            "memory_gigabytes_per_second is in another unit",
        ),
        (
            {"device": {"name": "X", "memory_bytes_per_second": 9e11, "peak_flops": {"fp32": 15.7}}},
            "peak_flops of fp32 is 15.7",
        ),
    ],
)
def test_a_wrong_fact_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        machine_from(GOOD | change)
    assert caught.value.hint


@pytest.mark.parametrize("missing", ["name", "device", "devices_per_host", "device_link"])
def test_a_missing_fact_is_named(missing: str) -> None:
    with pytest.raises(DataError, match=f"{missing} is missing"):
        machine_from({name: value for name, value in GOOD.items() if name != missing})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", r"is \[1\], not an object"),
        ("[" * 100_000, "is not JSON: it is nested too deeply"),
        (json.dumps(GOOD | {"device_link": {"kind": "pcie", "bytes_per_second": 10**400}}), "bytes_per_second is inf"),
        (json.dumps(GOOD | {"devices_per_host": 10**400}), "devices_per_host is inf"),
    ],
)
def test_a_file_that_holds_no_machine_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_machine(path)


@pytest.mark.parametrize("name", ["", "a" * 300])
def test_a_name_that_no_file_can_have_is_not_taken_for_a_file(name: str) -> None:
    with pytest.raises(DataError, match=f"no machine is called '{name}'"):
        find_machine(name)


def test_an_unknown_machine_gets_the_nearest_names() -> None:
    with pytest.raises(DataError, match="no machine is called 'dgx1'") as caught:
        find_machine("dgx1")
    assert "did you mean dgx-1-" in str(caught.value)
    with pytest.raises(DataError, match="cannot be read"):
        find_machine("not/there.json")
