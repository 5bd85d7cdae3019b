"""Launchers that start one process per host: the pods of Kubernetes, SkyPilot, AWS Batch, SageMaker."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping

from abreast import typed_command
from abreast.errors import LaunchError
from abreast.launchers.route import DEFAULT_ROUTE, own_address_towards
from abreast.launchers.variables import HINT, master, number, port, port_of_job, rank_and_size
from abreast.launchers.world import LauncherName, World

_PORT = 29500  # torchrun's port, for launchers that set neither a port nor the name of their job


def of_hosts(environ: Mapping[str, str], source: LauncherName, rank_name: str, size_name: str) -> World | None:
    """The world of one process per host; None for one host. In a pod of an Indexed Job, its index is the default rank."""
    if size_name in environ and "JOB_COMPLETION_INDEX" in environ:
        environ = {rank_name: environ["JOB_COMPLETION_INDEX"], **environ}
    found = rank_and_size(environ, rank_name, size_name)
    if found is None or found[1] == 1:
        return None
    return World(*found, 0, 1, platform.node(), source, *master(environ), per="host")


def torch_pods(environ: Mapping[str, str]) -> World | None:
    """The world of a pod with torchrun's options as variables, without torchrun. Source: torch plugin of Kubeflow's trainer."""
    text = environ.get("PET_NNODES")
    if text is None or ("RANK" in environ and "PET_NODE_RANK" not in environ):
        return None
    low, _, high = text.partition(":")
    if high not in ("", low):
        message = f"PET_NNODES={text!r} is an elastic number of hosts, which only torchrun counts"
        raise LaunchError(message, f"start `torchrun {typed_command.under_torchrun()}`, which reads PET_*")
    found = of_hosts({**environ, "PET_NNODES": low}, "torch-pods", "PET_NODE_RANK", "PET_NNODES")
    if found is None:
        return None
    return found.reached_at(environ.get("PET_MASTER_ADDR"), port(environ, "PET_MASTER_PORT") or _PORT)


def skypilot(environ: Mapping[str, str]) -> World | None:
    """The world that SkyPilot reports. Source: SkyPilot's page "Environment Variables and Secrets"."""
    found = of_hosts(environ, "skypilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES")
    if found is None:
        return None
    addresses = environ.get("SKYPILOT_NODE_IPS", "").split()
    if addresses and len(addresses) != found.size:
        message = f"SKYPILOT_NUM_NODES={found.size}, but SKYPILOT_NODE_IPS has {len(addresses)}"
        raise LaunchError(message, HINT)
    job = environ.get("SKYPILOT_TASK_ID")
    return found.reached_at(addresses[0] if addresses else None, _PORT if job is None else port_of_job(job))


def aws_batch(environ: Mapping[str, str]) -> World | None:
    """The world of AWS Batch: the main node is rank 0. Other nodes have its address. Source: "Environment variables"."""
    found = of_hosts(environ, "aws-batch", "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES")
    if found is None:
        return None
    rank = (found.rank - (number(environ, "AWS_BATCH_JOB_MAIN_NODE_INDEX") or 0)) % found.size
    found = World(rank, found.size, 0, 1, found.host, found.source, *master(environ), per="host")
    address = environ.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")
    if rank == 0 and address is None:
        address = own_address_towards(DEFAULT_ROUTE) or platform.node()
    job = environ.get("AWS_BATCH_JOB_ID", "").partition("#")[0]
    return found.reached_at(address, port_of_job(job) if job else _PORT)


def sagemaker(environ: Mapping[str, str]) -> World | None:
    """The world of SageMaker: rank 0 is the first host by name. Source: sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md."""
    text, here = environ.get("SM_HOSTS"), environ.get("SM_CURRENT_HOST")
    if text is None or here is None:
        return None
    try:
        hosts = sorted(map(str, json.loads(text)))
        rank = hosts.index(here)
    except (ValueError, TypeError):
        raise LaunchError(f"SM_CURRENT_HOST={here!r} is not in SM_HOSTS={text!r}", HINT) from None
    if len(hosts) == 1:
        return None
    found = World(rank, len(hosts), 0, 1, here, "sagemaker", *master(environ), per="host")
    return found.reached_at(hosts[0], _PORT)
