"""Each launcher's own variables: the place of a process, the address of rank 0, its device, and which launcher counts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from abreast.errors import LaunchError
from abreast.launchers import World, address_of_rank_0, own_device, read_world
from abreast.launchers.hydra import hydra
from abreast.launchers.route import addresses
from abreast.launchers.slurm import first_host
from abreast.launchers.variables import port_of_job
from tests import recorded_launchers as recorded
from tests.harness.client import ROOT
from tests.recorded_launchers import Variables

HOST = platform.node()
GPUS = ("gpu:0", "gpu:1")


@pytest.mark.parametrize(
    ("environ", "world"),
    [
        (recorded.torchrun_2_13(1), World(1, 2, 1, 2, HOST, "torchrun", "localhost", 41665)),
        (recorded.open_mpi_4_1_4(1), World(1, 2, 1, 2, HOST, "openmpi", "127.0.0.1", port_of_job("128188417"))),
        (
            recorded.open_mpi_4_1_4_on_two_hosts(0),
            World(0, 2, 0, 1, HOST, "openmpi", "192.0.2.2", port_of_job("1967325185")),
        ),
        (
            recorded.open_mpi_4_1_4_on_two_hosts(1),
            World(1, 2, 0, 1, HOST, "openmpi", "192.0.2.2", port_of_job("1967325185")),
        ),
        (
            recorded.open_mpi_5_0_11(1),
            World(1, 2, 1, 2, HOST, "openmpi", "127.0.0.1", port_of_job("prterun-vm-31081@1")),
        ),
        (
            recorded.open_mpi_5_0_11_on_two_hosts(0),
            World(0, 2, 0, 1, HOST, "openmpi", "vm", port_of_job("prterun-vm-9803@1")),
        ),
        (
            recorded.open_mpi_5_0_11_on_two_hosts(1),
            World(1, 2, 0, 1, HOST, "openmpi", "vm", port_of_job("prterun-vm-9803@1")),
        ),
        (recorded.mpich_4_0_2_on_two_hosts(1), World(1, 2, 0, 1, HOST, "mpich")),
        (
            recorded.intel_mpi_2021_18(1),
            World(1, 2, 1, 2, HOST, "intel-mpi", "127.0.0.1", port_of_job(recorded.INTEL_JOB)),
        ),
        (recorded.slurm_22_05(3), World(3, 4, 1, 2, "n02", "slurm", "n01", 61442)),
        ({**recorded.slurm_22_05(1), **recorded.SLURM_PMI2}, World(1, 4, 1, 2, "n01", "slurm", "n01", 61442)),
        (recorded.slurm_22_05_with_a_gpu_per_task(1), World(1, 2, 1, 2, "n01", "slurm", "127.0.0.1", 61444)),
        (recorded.SALLOC_22_05, World(0, 1, 0, 1, HOST, "alone")),
        (recorded.SBATCH_22_05, World(0, 1, 0, 1, HOST, "alone")),
        (
            recorded.trainjob_torch(1),
            World(1, 2, 0, 1, HOST, "torch-pods", "digits-node-0-0.digits", 29500, per="host"),
        ),
        (recorded.trainjob_jax(1), World(1, 2, 0, 1, HOST, "jax", "digits-node-0-0.digits", 6666, per="host")),
        (
            recorded.skypilot(1),
            World(1, 2, 0, 1, HOST, "skypilot", "10.0.0.1", port_of_job(recorded.SKYPILOT_TASK), per="host"),
        ),
        (
            recorded.aws_batch(2),
            World(2, 3, 0, 1, HOST, "aws-batch", "10.0.0.1", port_of_job(recorded.AWS_JOB), per="host"),
        ),
        (
            recorded.aws_batch(0, main=1),
            World(2, 3, 0, 1, HOST, "aws-batch", "10.0.0.1", port_of_job(recorded.AWS_JOB), per="host"),
        ),
        (recorded.sagemaker(2), World(1, 2, 0, 1, "algo-2", "sagemaker", "algo-1", 29500, per="host")),
        (
            recorded.vertex_ai(1, 1),
            World(2, 3, 0, 1, HOST, "vertex-ai", "cmle-training-workerpool0-ab12-0", 2222, per="host"),
        ),
        (
            recorded.tf_job("worker", 1),
            World(2, 3, 0, 1, HOST, "tf-config", "digits-chief-0.ns.svc", 2222, per="host"),
        ),
        ({**recorded.skypilot(0), "SKYPILOT_NUM_NODES": "1"}, World(0, 1, 0, 1, HOST, "alone")),
        (
            {"JOB_COMPLETION_INDEX": "3"},
            World(0, 1, 0, 1, HOST, "alone"),
        ),  # the pods of a Job may have nothing in common
        ({"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234"}, World(0, 1, 0, 1, HOST, "alone")),
    ],
)
def test_each_launcher_reports_rank_size_host_and_the_address_of_rank_0(environ: Variables, world: World) -> None:
    assert read_world(environ) == world


@pytest.mark.parametrize("environ", [recorded.mpich_4_0_2, recorded.mpich_5_0_2])
def test_ranks_of_mpich_on_one_host_meet_at_the_port_of_their_proxy(
    environ: Callable[[int], Variables], tmp_path: Path
) -> None:
    """Also if a shell stands between the proxy and one of the ranks: process 30 is the proxy, 20 a shell with a rank."""
    for process, parent, variables in ((os.getpid(), 20, "PMI_RANK=1"), (20, 30, "A=1\0PMI_RANK=1"), (30, 1, "A=1")):
        folder = tmp_path / "proc" / str(process)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{process} (a (name) b) S {parent} 1 1")
        (folder / "environ").write_text(variables)
    world = hydra(environ(1), tmp_path)
    assert world == World(1, 2, 1, 2, HOST, "mpich", "127.0.0.1", port_of_job("30"))
    assert hydra(environ(1), tmp_path / "elsewhere") == World(1, 2, 1, 2, HOST, "mpich")


def test_mpich_finds_its_proxy_in_real_processes() -> None:
    """Two ranks of one parent, one of them below a shell, take the same port."""
    code = "from abreast.launchers import read_world; print(read_world().master_port)"
    ports = set()
    for rank, words in ((0, [sys.executable, "-c", code]), (1, ["sh", "-c", f"{sys.executable} -c '{code}'; true"])):
        environ = {**os.environ, **recorded.mpich_4_0_2(rank), "PYTHONPATH": str(ROOT / "src")}
        ports.add(subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert len(ports) == 1 and "None" not in ports.pop()


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        (recorded.open_mpi_4_1_4_on_two_hosts(1), "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=PORT"),
        (recorded.mpich_4_0_2_on_two_hosts(1), "mpiexec -genv MASTER_ADDR HOST -genv MASTER_PORT PORT"),
        (recorded.trainjob_jax(1), "set MASTER_ADDR and MASTER_PORT"),
    ],
)
def test_where_the_address_is_unknown_the_launchers_option_for_it_is_named(environ: Variables, text: str) -> None:
    with pytest.raises(
        LaunchError, match=r"started 2 processes, but the address of rank 0 is not set\nhint: .*" + text
    ):
        address_of_rank_0(replace(read_world(environ), master_addr=None))


def test_the_address_of_mpirun_is_not_taken_where_rank_0_runs_elsewhere_or_it_has_several() -> None:
    for version in (recorded.open_mpi_4_1_4_on_two_hosts, recorded.open_mpi_5_0_11_on_two_hosts):
        swapped = {**version(1), "OMPI_COMM_WORLD_RANK": "0"}  # rank 0 on the other host
        assert read_world(swapped).master_addr is None
    several = recorded.open_mpi_4_1_4_on_two_hosts(0)
    for name in ("OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_local_daemon_uri"):
        several[name] = several[name].replace("192.0.2.2", "192.0.2.2,172.17.0.1")
    assert read_world(several).master_addr is None
    assert read_world({**recorded.slurm_22_05(2), "SLURM_PROCID": "0"}).master_addr is None


def test_an_address_that_the_user_sets_is_taken() -> None:
    own = {"MASTER_ADDR": "10.9.9.9", "MASTER_PORT": "1234"}
    for environ in (
        recorded.slurm_22_05(1),
        recorded.open_mpi_5_0_11(1),
        recorded.skypilot(1),
        recorded.mpich_4_0_2(0),
    ):
        world = read_world({**environ, **own})
        assert (world.master_addr, world.master_port) == ("10.9.9.9", 1234)


def test_the_port_follows_from_the_job_in_a_range_that_linux_gives_to_no_connection() -> None:
    assert [port_of_job(job) for job in (0, 4095, 4096, 7_000_001)] == [61440, 65535, 61440, 61440 + 7_000_001 % 4096]
    assert port_of_job("prterun-vm-31081@1") == 61440 + 962


def test_steps_of_one_slurm_job_have_ports_of_their_own() -> None:
    ports = {read_world({**recorded.slurm_22_05(0), "SLURM_STEP_ID": str(step)}).master_port for step in range(50)}
    assert len(ports) == 50


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("n01", "n01"),
        ("node[01-03,7],gpu5", "node01"),
        ("gpu5,node[01-03,7]", "gpu5"),
        ("rack[2,4]n[10-12]-ib", "rack2n10-ib"),
        ("a-b.example.org,c", "a-b.example.org"),
    ],
)
def test_the_first_host_of_a_list_of_slurm(hosts: str, first: str) -> None:
    assert first_host({"SLURM_STEP_NODELIST": hosts}) == first


@pytest.mark.parametrize("hosts", ["n[01-02", "[", "n01 n02", ",n01"])
def test_a_broken_list_of_slurm_is_an_error_with_its_text(hosts: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read_world({**recorded.slurm_22_05(1), "SLURM_STEP_NODELIST": hosts})
    assert str(caught.value) == (
        f"SLURM_STEP_NODELIST={hosts!r} is not a list of hosts\nhint: set MASTER_ADDR to the host of rank 0"
    )


def test_the_main_node_of_aws_batch_finds_its_own_address() -> None:
    world = read_world(recorded.aws_batch(0))
    assert world.rank == 0 and world.master_addr not in (None, "10.0.0.1")


def test_a_name_of_rank_0_that_is_not_known_yet_stays() -> None:
    """Kubernetes makes the names of pods known a little after their start."""
    name = "digits-0.digits.invalid"
    assert addresses(World(1, 2, 0, 1, HOST, "jax", name, 1234, per="host"), name)[1] == name
    assert addresses(World(0, 2, 0, 1, HOST, "jax", name, 1234, per="host"), name)[1] != name


def test_the_hosts_of_sagemaker_are_counted_by_name() -> None:
    environ = {**recorded.sagemaker(2), "SM_HOSTS": '["algo-2","algo-1"]'}
    assert read_world(environ) == read_world(recorded.sagemaker(2))


def test_the_workers_of_one_host_in_a_tf_config_are_processes_of_it() -> None:
    cluster = {"worker": ["localhost:12345", "localhost:23456"]}
    environ = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})}
    assert read_world(environ) == World(1, 2, 1, 2, HOST, "tf-config", "127.0.0.1", 12345)


@pytest.mark.parametrize(
    "text",
    ["{}", '{"cluster": {"worker": ["a:1"], "workerpool0": ["a:1"]}, "task": {"type": "worker", "index": 0}}'],
)
def test_a_cluster_of_one_process_or_of_something_else_is_none(text: str) -> None:
    for name in ("TF_CONFIG", "CLUSTER_SPEC"):
        assert read_world({name: text}).source == "alone"


def test_the_numbers_of_torch_that_vertex_ai_sets_too_agree() -> None:
    """Vertex AI's page on PyTorch names them."""
    torch = {"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "cmle-training-workerpool0-ab12-0", "MASTER_PORT": "3333"}
    world = read_world({**recorded.vertex_ai(1, 1), **torch})
    assert (world.source, world.rank, world.per, world.master_port) == ("torchrun", 2, "host", 3333)


def test_an_indexed_job_needs_only_the_number_of_pods_and_an_address() -> None:
    environ = {"JOB_COMPLETION_INDEX": "1", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "job-0.job:1234"}
    assert read_world(environ) == World(1, 2, 0, 1, HOST, "jax", "job-0.job", 1234, per="host")
    environ = {"JOB_COMPLETION_INDEX": "1", "PET_NNODES": "2:2", "PET_MASTER_ADDR": "job-0.job"}
    assert read_world(environ) == World(1, 2, 0, 1, HOST, "torch-pods", "job-0.job", 29500, per="host")


def test_the_launcher_that_started_the_process_counts() -> None:
    srun, mpirun = recorded.slurm_22_05(1), recorded.open_mpi_5_0_11(0)
    torchrun = {**recorded.torchrun_2_13(1), "WORLD_SIZE": "4", "RANK": "3"}
    for around in (srun, mpirun, recorded.trainjob_torch(0), recorded.trainjob_jax(0), recorded.skypilot(0)):
        assert read_world({**around, **torchrun}).source == "torchrun"
    assert read_world({**srun, **mpirun}).source == "openmpi"
    assert read_world({**recorded.SBATCH_22_05, **srun}).source == "slurm"


def test_torchrun_mpirun_and_ray_may_number_otherwise_than_srun() -> None:
    """With a rendezvous, torchrun's ranks follow the order in which its agents arrive."""
    srun = {
        **recorded.slurm_22_05(2),
        "SLURM_PROCID": "1",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    }
    assert read_world({**srun, **recorded.torchrun_2_13(0)}).rank == 0
    assert read_world({**srun, **recorded.open_mpi_5_0_11(0)}).rank == 0  # mpirun starts its daemons with srun
    ray = {**recorded.torchrun_2_13(0), "RAY_RAYLET_PID": "77"}
    del ray["TORCHELASTIC_RUN_ID"]
    assert read_world({**srun, **ray}).rank == 0


BY_HAND = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "values"),
    [
        ({**recorded.slurm_22_05(2), **BY_HAND}, "RANK=3 and SLURM_PROCID=2 give this process two ranks of 4"),
        (
            {**recorded.open_mpi_5_0_11(1), "OMPI_COMM_WORLD_SIZE": "4", **BY_HAND},
            "RANK=3 and OMPI_COMM_WORLD_RANK=1 give this process two ranks of 4",
        ),
        (
            {**recorded.trainjob_jax(0), **recorded.mpich_4_0_2_on_two_hosts(1)},
            "PMI_RANK=1 and JAX_PROCESS_ID=0 give this process two ranks of 2",
        ),
        (
            {**recorded.tf_job("chief", 0), **recorded.vertex_ai(1, 0)},
            "TF_CONFIG=0 and CLUSTER_SPEC=1 give this process two ranks of 3",
        ),
        (
            {**recorded.trainjob_torch(0), **BY_HAND, "RANK": "1", "WORLD_SIZE": "2"},
            "RANK=1 and PET_NODE_RANK=0 give this process two ranks of 2",
        ),
    ],
)
def test_numbers_that_anybody_may_set_must_agree_with_a_launcher_that_counts_as_many(
    environ: Variables, values: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        read_world(environ)
    assert caught.value.message == values
    assert caught.value.hint is not None and caught.value.hint.startswith("unset the variables of the launcher")


def test_numbers_that_agree_or_count_other_processes_are_no_contradiction() -> None:
    assert read_world({**recorded.slurm_22_05(3), **BY_HAND}).rank == 3
    assert read_world({**recorded.open_mpi_5_0_11(0), **BY_HAND}).size == 4
    assert read_world({**recorded.trainjob_torch(1), "RANK": "1", "WORLD_SIZE": "2"}).rank == 1


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        (
            {**recorded.trainjob_jax(0), "JAX_COORDINATOR_ADDRESS": "job-0"},
            "JAX_COORDINATOR_ADDRESS='job-0' is not HOST:PORT",
        ),
        ({**recorded.trainjob_jax(0), "JAX_PROCESS_ID": "2"}, "JAX_PROCESS_ID=2 is not below JAX_NUM_PROCESSES=2"),
        ({**recorded.trainjob_torch(0), "PET_MASTER_PORT": "70000"}, "PET_MASTER_PORT=70000 is not a port"),
        (
            {**recorded.trainjob_torch(0), "PET_NNODES": "1:4"},
            "PET_NNODES='1:4' is an elastic number of hosts, which only torchrun counts\nhint: start `torchrun ",
        ),
        (
            {**recorded.skypilot(0), "SKYPILOT_NODE_IPS": "10.0.0.1"},
            "SKYPILOT_NUM_NODES=2, but SKYPILOT_NODE_IPS has 1",
        ),
        ({**recorded.sagemaker(3)}, "SM_CURRENT_HOST='algo-3' is not in SM_HOSTS="),
        ({**recorded.sagemaker(1), "SM_HOSTS": "algo-1"}, "SM_CURRENT_HOST='algo-1' is not in SM_HOSTS='algo-1'"),
        (
            recorded.tf_job("evaluator", 0),
            "TF_CONFIG makes this process evaluator 0, and only chief and worker train\nhint: leave out parameter servers",
        ),
        (
            recorded.vertex_ai(2, 0),
            "CLUSTER_SPEC makes this process workerpool2 0, and only workerpool0 and workerpool1",
        ),
        ({"TF_CONFIG": "worker:0"}, "TF_CONFIG='worker:0' does not describe a cluster"),
        (
            {"TF_CONFIG": '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 0}}'},
            "TF_CONFIG: 'a' is not HOST:PORT",
        ),
        ({**recorded.mpich_5_0_2(0), "PMI_SIZE": "0"}, "PMI_RANK=0 is not below PMI_SIZE=0"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(environ: Variables, text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        read_world(environ)


@pytest.mark.parametrize(
    ("environ", "visible", "device"),
    [
        (recorded.torchrun_2_13(1), GPUS, "gpu:1"),
        (recorded.slurm_22_05(3), GPUS, "gpu:1"),
        (recorded.slurm_22_05_with_a_gpu_per_task(1), ("gpu:0",), "gpu:0"),
        (recorded.mpich_4_0_2_on_two_hosts(1), ("gpu:0",), "gpu:0"),
        (recorded.open_mpi_4_1_4(1), ("cpu:0",), "cpu:0"),
        (recorded.open_mpi_4_1_4(1), ("cpu:0", "cpu:1"), "cpu:0"),
        (recorded.skypilot(1), ("gpu:0",), "gpu:0"),  # one device per host: as many processes as devices
    ],
)
def test_a_process_takes_the_gpu_of_its_local_rank_or_the_only_one_that_it_is_shown(
    environ: Variables, visible: tuple[str, ...], device: str
) -> None:
    assert own_device(read_world(environ), visible, environ) == device


def test_more_processes_than_gpus_are_refused() -> None:
    environ = recorded.torchrun_2_13(1)
    with pytest.raises(LaunchError) as caught:
        own_device(read_world(environ), ("gpu:0",), environ)
    assert str(caught.value) == (
        f"the process with local rank 1 on {HOST} sees 1 GPU\n"
        "hint: start at most 1 per host, or show each process its own GPU (`srun --gpus-per-task 1`)"
    )
    environ = {**recorded.slurm_22_05(1), "SLURM_LOCALID": "2", "SLURM_STEP_TASKS_PER_NODE": "3,1"}
    with pytest.raises(LaunchError, match=r"local rank 2 on n01 sees 2 GPUs \(CUDA_VISIBLE_DEVICES=0,1\)"):
        own_device(read_world(environ), GPUS, environ)
