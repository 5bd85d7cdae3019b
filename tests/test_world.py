"""Which rank a process has, out of the variables that each launcher sets."""

from __future__ import annotations

import platform
import sys
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import abreast
from abreast.errors import LaunchError
from abreast.launchers import World, address_of_rank_0, read_world

HOST = platform.node()

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SRUN = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "5",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
KERAS = {
    "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.0.1:1234,10.0.0.1:1235,10.0.0.2:1234",
    "KERAS_DISTRIBUTION_NUM_PROCESSES": "3",
    "KERAS_DISTRIBUTION_PROCESS_ID": "1",
}


@pytest.mark.parametrize(
    ("environ", "world"),
    [
        ({}, World(0, 1, 0, 1, HOST, "alone")),
        ({"ABREAST_RANK": "2", "ABREAST_WORLD_SIZE": "4"}, World(2, 4, 2, 4, HOST, "abreast")),
        (TORCHRUN, World(3, 4, 1, 2, HOST, "torchrun", "10.0.0.1", 29500)),
        ({**TORCHRUN, "RAY_RAYLET_PID": "7"}, World(3, 4, 1, 2, HOST, "ray", "10.0.0.1", 29500)),
        (OPENMPI, World(2, 4, 0, 2, HOST, "openmpi")),  # a version without PMIx
        (SRUN, World(3, 5, 1, 2, HOST, "slurm")),
        (KERAS, World(1, 3, 1, 2, "10.0.0.1", "keras", "10.0.0.1", 1234)),
    ],
)
def test_each_launcher_is_understood(environ: dict[str, str], world: World) -> None:
    assert read_world(environ) == world


def test_our_own_workers_below_torchrun_have_their_own_rank() -> None:
    assert read_world({**TORCHRUN, "ABREAST_RANK": "1", "ABREAST_WORLD_SIZE": "2"}).rank == 1


def test_torchrun_below_srun_numbers_the_processes() -> None:
    assert read_world({**SRUN, **TORCHRUN}).source == "torchrun"


def test_a_worker_of_ray_whose_cluster_srun_started_has_the_rank_that_ray_gives_it() -> None:
    ray = {**TORCHRUN, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "RAY_RAYLET_PID": "7"}
    world = read_world({**SRUN, **KERAS, **ray})
    assert (world.source, world.rank, world.size, world.per) == ("ray", 3, 4, "host")


def test_torchrun_below_ray_numbers_the_processes() -> None:
    assert read_world({**TORCHRUN, "RAY_RAYLET_PID": "7", "TORCHELASTIC_RUN_ID": "none"}).source == "torchrun"


def test_a_worker_of_a_trainer_without_variables_has_the_numbers_of_rays_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = {"world_rank": 1, "world_size": 2, "local_rank": 0, "local_world_size": 1}
    context = SimpleNamespace(**{f"get_{name}": partial(int, number) for name, number in numbers.items()})
    monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=lambda: context))
    found = read_world({"RAY_RAYLET_PID": "7"})
    assert found == World(1, 2, 0, 1, HOST, "ray", per="host")
    with pytest.raises(LaunchError, match=r"address of rank 0 is not set\nhint: `abreast.ray.trainer`"):
        address_of_rank_0(found)
    assert read_world({}).source == "alone"


def test_a_process_of_ray_outside_of_a_trainer_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=lambda: 1 / 0))
    assert read_world({"RAY_RAYLET_PID": "7"}).source == "alone"


def test_mpirun_inside_a_slurm_job_numbers_the_processes() -> None:
    assert read_world({**SRUN, **OPENMPI}).source == "openmpi"


def test_without_a_local_rank_each_host_has_one_process() -> None:
    assert read_world({"RANK": "3", "WORLD_SIZE": "4"}) == World(3, 4, 0, 1, HOST, "torchrun", per="host")


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_STEP_ID": ""},  # a batch script
        {"SLURM_STEP_ID": str(0xFFFFFFFB)},  # the batch step
        {"SLURM_STEP_ID": str(0xFFFFFFFA)},  # the shell of `salloc`
        {"SLURM_STEP_NUM_TASKS": "1"},  # `srun -n 1` in a larger job
    ],
)
def test_a_process_that_slurm_starts_once_is_alone(changes: dict[str, str]) -> None:
    assert read_world({**SRUN, **changes}).source == "alone"


@pytest.mark.parametrize(("node", "local_rank", "local_size"), [("0", "1", 2), ("2", "0", 1)])
def test_the_number_of_tasks_on_this_host_comes_from_slurm(node: str, local_rank: str, local_size: int) -> None:
    world = read_world({**SRUN, "SLURM_NODEID": node, "SLURM_LOCALID": local_rank})
    assert world.local_size == local_size


def test_keras_on_jax_needs_the_first_address_only() -> None:
    world = read_world({**KERAS, "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.0.1:1234"})
    assert (world.rank, world.size, world.master_addr, world.master_port) == (1, 3, "10.0.0.1", 1234)


def test_keras_counts_the_addresses_when_no_number_is_given() -> None:
    assert read_world({**KERAS, "KERAS_DISTRIBUTION_NUM_PROCESSES": ""}).size == 3


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({**TORCHRUN, "RANK": "two"}, "RANK='two' is not a number"),
        ({**TORCHRUN, "WORLD_SIZE": "-4"}, "WORLD_SIZE='-4' is not a number"),
        ({**TORCHRUN, "RANK": "4"}, "RANK=4 is not below WORLD_SIZE=4"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK=0 is not below WORLD_SIZE=0"),
        ({"WORLD_SIZE": "4"}, "WORLD_SIZE='4' is set, but RANK is not"),
        ({"RANK": "1"}, "RANK='1' is set, but WORLD_SIZE is not"),
        ({**TORCHRUN, "LOCAL_RANK": "2"}, "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}, "LOCAL_WORLD_SIZE=8 is more than WORLD_SIZE=4"),
        ({**TORCHRUN, "MASTER_PORT": "http"}, "MASTER_PORT='http' is not a number"),
        ({**TORCHRUN, "MASTER_PORT": "70000"}, "MASTER_PORT=70000 is not a port"),
        ({**OPENMPI, "OMPI_COMM_WORLD_RANK": "9"}, "OMPI_COMM_WORLD_RANK=9 is not below OMPI_COMM_WORLD_SIZE=4"),
        ({**SRUN, "SLURM_PROCID": "5"}, "SLURM_PROCID=5 is not below SLURM_STEP_NUM_TASKS=5"),
        ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "2x2"}, "SLURM_STEP_TASKS_PER_NODE='2x2' is not a list of numbers"),
        ({**SRUN, "SLURM_NODEID": "3"}, r"SLURM_NODEID=3 is not below the 3 hosts of SLURM_STEP_TASKS_PER_NODE='2\(x2"),
        (
            {**KERAS, "KERAS_DISTRIBUTION_NUM_PROCESSES": "2"},
            "NUM_PROCESSES='2', but .*JOB_ADDRESSES has 3\nhint: give one",
        ),
        (
            {**KERAS, "KERAS_DISTRIBUTION_PROCESS_ID": ""},
            "NUM_PROCESSES='3' is set, but KERAS_DISTRIBUTION_PROCESS_ID is",
        ),
        ({"ABREAST_RANK": "2", "ABREAST_WORLD_SIZE": "2"}, "ABREAST_RANK=2 is not below ABREAST_WORLD_SIZE=2"),
    ],
)
def test_variables_that_disagree_are_named_with_their_values(environ: dict[str, str], text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        read_world(environ)


def test_the_hint_explains_how_to_run_alone() -> None:
    with pytest.raises(LaunchError) as caught:
        read_world({"RANK": "1"})
    assert caught.value.hint == "start every process with one launcher, or unset these variables to run alone"


@given(st.integers(1, 64).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size))))
def test_any_rank_below_the_size_is_taken(rank_and_size: tuple[int, int]) -> None:
    rank, size = rank_and_size
    world = read_world({"RANK": str(rank), "WORLD_SIZE": str(size)})
    assert (world.rank, world.size) == (rank, size)


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_0_is_the_main_process(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    monkeypatch.setenv("ABREAST_RANK", str(rank))
    monkeypatch.setenv("ABREAST_WORLD_SIZE", "2")
    assert abreast.rank() == rank
    assert abreast.is_main_process() == (rank == 0)
