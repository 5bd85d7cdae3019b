"""Which devices a request means, and what is said about a request for devices that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.device_request import DeviceSpec, choose, cpu_devices, parse_devices, unused_request
from abreast.errors import DeviceError
from abreast.launchers import World

GPUS = ("gpu:0", "gpu:1", "gpu:2", "gpu:3")
CPU = ("cpu:0",)


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("auto", GPUS),
        ("gpu", GPUS),
        (1, ("gpu:0",)),
        (4, GPUS),
        ("2", ("gpu:0", "gpu:1")),
        ("0,2", ("gpu:0", "gpu:2")),
        ("0,", ("gpu:0",)),
        ([0], ("gpu:0",)),
        ((3, "1"), ("gpu:3", "gpu:1")),
        ("gpu:2, cuda:0", ("gpu:2", "gpu:0")),
        ("GPU:1", ("gpu:1",)),
        (["gpu:1", 0], ("gpu:1", "gpu:0")),
    ],
)
def test_a_request_means_these_devices(spec: DeviceSpec, names: tuple[str, ...]) -> None:
    assert choose(spec, GPUS) == names


@pytest.mark.parametrize(("spec", "names"), [("auto", ("gpu:0",)), ("cpu", CPU), (1, ("gpu:0",)), ("cpu:0", CPU)])
def test_accelerators_come_before_the_cpu(spec: DeviceSpec, names: tuple[str, ...]) -> None:
    assert choose(spec, ("cpu:0", "gpu:0")) == names


@pytest.mark.parametrize("spec", ["auto", 1, "cpu", "cpu:0", [0]])
def test_the_cpu_is_one_device(spec: DeviceSpec) -> None:
    assert choose(spec, CPU) == CPU


@pytest.mark.parametrize("count", [1, 4])
def test_auto_takes_every_simulated_device(count: int) -> None:
    names = tuple(f"cpu:{index}" for index in range(count))
    assert choose("auto", names) == names


SIMULATE = (
    "hint: to simulate devices on the CPU, use `abreast run --cpu-devices {0}`, or abreast.use_cpu_devices({0}) before"
)

FORM = 'give "auto", a number, indices as "0,2", or names as "gpu:0,gpu:1" or "cpu:0"'


@pytest.mark.parametrize(
    ("spec", "available", "text"),
    [
        (5, GPUS, "5 devices asked for, but there are 4: gpu:0, gpu:1, gpu:2, gpu:3\nhint: ask for at most 4"),
        (2, GPUS[:1], "2 devices asked for, but there is gpu:0\nhint: ask for at most 1"),
        (4, CPU, "4 devices asked for, but there is cpu:0\n" + SIMULATE.format(4)),
        ("gpu:7", GPUS[:2], f"there is no device gpu:7, only gpu:0, gpu:1\nhint: {FORM}; `abreast devices` lists them"),
        (
            [0, 9],
            GPUS[:2],
            f"there is no device with index 9, only gpu:0, gpu:1\nhint: {FORM}; `abreast devices` lists",
        ),
        ("gpu", CPU, f"there is no device gpu, only cpu:0\nhint: {FORM}; {SIMULATE.format(2).removeprefix('hint: ')}"),
        (
            "0,5",
            ("cpu:0", "cpu:1"),
            f"there is no device with index 5, only cpu:0, cpu:1\nhint: {FORM}; {SIMULATE.format(6).removeprefix('hint: ')}",
        ),
        (
            "cpu:0,cpu:1,cpu:3",
            CPU,
            f"there is no device cpu:1, only cpu:0\nhint: {FORM}; {SIMULATE.format(4).removeprefix('hint: ')}",
        ),
        (
            "cpu:3",
            CPU,
            f"there is no device cpu:3, only cpu:0\nhint: {FORM}; {SIMULATE.format(4).removeprefix('hint: ')}",
        ),
        ("foo", CPU, f"there is no device foo, only cpu:0\nhint: {FORM}; `abreast devices` lists them"),
        ("tpu:0", CPU, f"there is no device tpu:0, only cpu:0\nhint: {FORM}; `abreast devices` lists them"),
        ("0,0", GPUS, "device gpu:0 asked for 2 times\nhint: name each device once"),
        ([1, "gpu:1"], GPUS, "device gpu:1 asked for 2 times\nhint: name each device once"),
        ("cpu:0,gpu:0", ("cpu:0", "gpu:0"), "devices of different kinds: cpu:0, gpu:0\nhint: replicas run on"),
        (
            0,
            GPUS,
            "0 devices asked for, which is too few\nhint: ask for at least 1; for the device with index 0 alone write",
        ),
        ("-1", GPUS, "-1 devices asked for, which is too few\nhint: ask for at least 1"),
        ([-1], GPUS, "device index -1 is negative\nhint: indices count from 0"),
        ([], GPUS, "the list of devices is empty\nhint: give at least one"),
        ("", GPUS, f"'' is no device\nhint: {FORM}; `abreast devices` lists those that exist"),
        ("gpu0", GPUS, f"'gpu0' is no device\nhint: {FORM}"),
        ("gpu:²", GPUS, f"'gpu:²' is no device\nhint: {FORM}"),
        ("auto,0", GPUS, "a list of devices cannot hold 'auto'\nhint: a list holds indices and names"),
        (True, GPUS, f"devices=True is no request for devices\nhint: {FORM}"),
        (2.5, GPUS, f"devices=2.5 is no request for devices\nhint: {FORM}"),
        (np.float64(2), GPUS, "devices=np.float64(2.0) is no request for devices\nhint: "),
        ([None], GPUS, "None is no device\nhint: give an index"),
        ([1.5], GPUS, "1.5 is no device\nhint: give an index"),
    ],
)
def test_a_request_for_what_is_not_there_says_what_is(spec: Any, available: tuple[str, ...], text: str) -> None:
    with pytest.raises(DeviceError) as caught:
        choose(spec, available)
    assert str(caught.value).startswith(text)


@given(
    st.one_of(st.text(max_size=12), st.integers(-3, 9), st.lists(st.one_of(st.integers(-2, 5), st.text(max_size=6))))
)
def test_any_request_gives_devices_that_are_there_once_or_a_device_error(spec: DeviceSpec) -> None:
    try:
        chosen = choose(spec, GPUS)
    except DeviceError:
        return
    assert chosen
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(GPUS)


@pytest.mark.parametrize(("spec", "request_"), [("auto", "auto"), ("4", 4), ("0,2", (0, 2)), ("gpu:0", ("gpu:0",))])
def test_a_request_is_understood_before_any_device_is_known(spec: DeviceSpec, request_: object) -> None:
    assert parse_devices(spec) == request_


@pytest.mark.parametrize("count", ["4", 0, -1, 2.5, True, None, np.float32(2)])
def test_a_number_of_devices_to_simulate_is_a_whole_number(count: object) -> None:
    with pytest.raises(DeviceError, match=r"the CPU cannot simulate .* devices\nhint: give a whole number, at least 1"):
        cpu_devices(count)


def test_a_number_of_devices_to_simulate_has_any_whole_type() -> None:
    assert [cpu_devices(4), cpu_devices(np.int64(2))] == [4, 2]


def test_a_request_that_is_not_what_a_launchers_process_takes_is_named() -> None:
    world = World(1, 2, 0, 1, "n02", "slurm")
    names = ("rank:0/0", "rank:0/1", "rank:1/0", "rank:1/1")
    assert [unused_request(spec, world, names) for spec in ("auto", 2, "4")] == [None] * 3
    assert unused_request("3", world, names) == (
        "devices='3' is not used: slurm started 2 processes, and this one takes 2 devices\n"
        "hint: show each process its devices (`CUDA_VISIBLE_DEVICES`, `--cpu-devices N`)"
    )
