"""The variables that launchers set: recorded from real ones, by version, or taken from their documentation where none ran.

Recorded on one machine named `vm`; the second host of Open MPI had another name, and Slurm had two `slurmd -N`. Variables that no
reader could use are left out.
"""

from __future__ import annotations

import json

Variables = dict[str, str]

INTEL_JOB = "87790000-adcc-5b91-1b61-06007509e30b"
SKYPILOT_TASK = "sky-2026-11-25-15-00-00-000000_digits_1"
AWS_JOB = "5b7e0e1c-7a0b-4b1a-9c55-2f1d0c3e8a11"


def torchrun_2_13(rank: int) -> Variables:
    """`torchrun --nproc-per-node 2`."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "41665",
        "TORCHELASTIC_RUN_ID": "0f40260d-41d1-42c5-8611-30f9a23a08fc",
        "OMP_NUM_THREADS": "1",
    }


def open_mpi_4_1_4(rank: int) -> Variables:
    """`mpirun -np 2`."""
    daemon = "128188416.0;tcp://192.0.2.2:38611;tcp6://[fd00::2]:33091"
    return {
        **_open_mpi(rank, local_rank=rank, local_size=2),
        "OMPI_MCA_orte_hnp_uri": daemon,
        "OMPI_MCA_orte_local_daemon_uri": daemon,
        "PMIX_HOSTNAME": "vm",
        "PMIX_NAMESPACE": "128188417",
    }


def open_mpi_4_1_4_on_two_hosts(rank: int) -> Variables:
    """`mpirun -np 2 --host vm:1,localhost2:1`."""
    daemons = [
        "1967325184.0;tcp://192.0.2.2:35039;tcp6://[fd00::2]:54621",
        "1967325184.1;tcp://192.0.2.2:34605;tcp6://[fd00::2]:50987",
    ]
    return {
        **_open_mpi(rank, local_rank=0, local_size=1),
        "OMPI_MCA_orte_hnp_uri": daemons[0],
        "OMPI_MCA_orte_local_daemon_uri": daemons[rank],
        "PMIX_HOSTNAME": ("vm", "localhost2")[rank],
        "PMIX_NAMESPACE": "1967325185",
    }


def open_mpi_5_0_11(rank: int) -> Variables:
    """`mpirun -np 2`."""
    return {
        **_open_mpi(rank, local_rank=rank, local_size=2),
        "PMIX_HOSTNAME": "vm",
        "PMIX_NAMESPACE": "prterun-vm-31081@1",
        "PMIX_SERVER_URI41": "prterun-vm-31081@0.0;tcp4://127.0.0.1:58831",
        "PRTE_LAUNCHED": "1",
    }


def open_mpi_5_0_11_on_two_hosts(rank: int) -> Variables:
    """`mpirun -np 2 --host vm:1,192.0.2.77:1 --map-by ppr:1:node`."""
    return {
        **_open_mpi(rank, local_rank=0, local_size=1),
        "PMIX_HOSTNAME": ("vm", "192.0.2.77")[rank],
        "PMIX_NAMESPACE": "prterun-vm-9803@1",
        "PMIX_SERVER_URI41": f"prterun-vm-9803@0.{rank};tcp4://127.0.0.1:5390{rank}",
        "PRTE_LAUNCHED": "1",
    }


def _open_mpi(rank: int, local_rank: int, local_size: int) -> Variables:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "PMIX_RANK": str(rank),
    }


def mpich_4_0_2(rank: int) -> Variables:
    """`mpiexec.hydra -np 2`."""
    return {**_hydra(rank, local_rank=rank, local_size=2), "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "vm"}


def mpich_4_0_2_on_two_hosts(rank: int) -> Variables:
    """`mpiexec.hydra -hosts vm,bhost -ppn 1 -np 2`."""
    host = ("vm", "bhost")[rank]
    return {**_hydra(rank, local_rank=0, local_size=1), "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": host}


def mpich_5_0_2(rank: int) -> Variables:
    """`mpiexec -np 2`."""
    return {**_hydra(rank, local_rank=rank, local_size=2), "PMI_HOSTNAME": "vm", "HYDI_CONTROL_FD": "7"}


def intel_mpi_2021_18(rank: int) -> Variables:
    """`mpiexec.hydra -np 2`."""
    return {
        **_hydra(rank, local_rank=rank, local_size=2),
        "I_MPI_HYDRA_UUID": INTEL_JOB,
        "HYDRA_BSTRAP_LOCALHOST": "vm",
    }


def _hydra(rank: int, local_rank: int, local_size: int) -> Variables:
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": "2",
        "PMI_FD": "11",
        "MPI_LOCALRANKID": str(local_rank),
        "MPI_LOCALNRANKS": str(local_size),
    }


def slurm_22_05(rank: int) -> Variables:
    """`srun -N 2 -n 4 --gpus-per-node=2`, on nodes with two GPUs."""
    return {
        "SLURM_JOB_ID": "2",
        "SLURM_STEP_ID": "0",
        "SLURM_JOB_NODELIST": "n[01-02]",
        "SLURM_STEP_NODELIST": "n[01-02]",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_NTASKS": "4",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % 2),
        "SLURM_NODEID": str(rank // 2),
        "SLURMD_NODENAME": ("n01", "n02")[rank // 2],
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_STEP_GPUS": "0,1",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def slurm_22_05_with_a_gpu_per_task(rank: int) -> Variables:
    """`srun -N 1 -n 2 --gpus-per-task=1`."""
    return {
        "SLURM_JOB_ID": "4",
        "SLURM_STEP_ID": "0",
        "SLURM_JOB_NODELIST": "n01",
        "SLURM_STEP_NODELIST": "n01",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURMD_NODENAME": "n01",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_STEP_GPUS": str(rank),
        "CUDA_VISIBLE_DEVICES": str(rank),
    }


# With `srun --mpi=pmi2`, in addition.
SLURM_PMI2 = {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": "11", "PMI_JOBID": "8.0", "SLURM_MPI_TYPE": "pmi2"}
# `salloc -N 2 -n 2` and `sbatch -N 2 --ntasks-per-node 1`: not processes of srun.
SALLOC_22_05 = {
    "SLURM_JOB_ID": "6",
    "SLURM_JOB_NODELIST": "n[01-02]",
    "SLURM_NTASKS": "2",
    "SLURM_NPROCS": "2",
    "SLURM_TASKS_PER_NODE": "1(x2)",
}
SBATCH_22_05 = {
    **SALLOC_22_05,
    "SLURM_JOB_ID": "7",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURMD_NODENAME": "n01",
}


# From here on: as the documentation or the source of each says.
def trainjob_torch(rank: int) -> Variables:
    """A pod of Kubeflow's TrainJob with the torch runtime."""
    return {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": "digits-node-0-0.digits",
        "PET_MASTER_PORT": "29500",
        "JOB_COMPLETION_INDEX": str(rank),
    }


def trainjob_jax(rank: int) -> Variables:
    """A pod of Kubeflow's TrainJob with the JAX runtime."""
    return {
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": str(rank),
        "JAX_COORDINATOR_ADDRESS": "digits-node-0-0.digits:6666",
        "JAX_COORDINATOR_PORT": "6666",
        "JOB_COMPLETION_INDEX": str(rank),
    }


def skypilot(rank: int) -> Variables:
    return {
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NUM_NODES": "2",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "SKYPILOT_NUM_GPUS_PER_NODE": "8",
        "SKYPILOT_TASK_ID": SKYPILOT_TASK,
    }


def aws_batch(node: int, main: int = 0) -> Variables:
    address = {} if node == main else {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.1"}
    return {
        "AWS_BATCH_JOB_ID": f"{AWS_JOB}#{node}",
        "AWS_BATCH_JOB_NODE_INDEX": str(node),
        "AWS_BATCH_JOB_NUM_NODES": "3",
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(main),
        **address,
    }


def vertex_ai(pool: int, index: int) -> Variables:
    """A replica of a custom job with a `WorkerPoolSpec` of one replica and one of two."""
    pools = {
        "workerpool0": ["cmle-training-workerpool0-ab12-0:2222"],
        "workerpool1": ["cmle-training-workerpool1-ab12-0:2222", "cmle-training-workerpool1-ab12-1:2222"],
    }
    task = {"type": f"workerpool{pool}", "index": index, "trial": ""}
    return {"CLUSTER_SPEC": json.dumps({"cluster": pools, "environment": "cloud", "task": task})}


def tf_job(role: str, index: int) -> Variables:
    """A pod of Kubeflow's TFJob with a chief, two workers and an evaluator."""
    cluster = {
        "chief": ["digits-chief-0.ns.svc:2222"],
        "evaluator": ["digits-evaluator-0.ns.svc:2222"],
        "worker": ["digits-worker-0.ns.svc:2222", "digits-worker-1.ns.svc:2222"],
    }
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"})
    }


def sagemaker(host: int) -> Variables:
    return {"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": f"algo-{host}", "SM_NUM_GPUS": "8"}
