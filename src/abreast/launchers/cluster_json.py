"""Variables that describe the whole cluster as JSON: Vertex AI's `CLUSTER_SPEC`, and TensorFlow's `TF_CONFIG`."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import LaunchError
from abreast.launchers.variables import HINT, master
from abreast.launchers.world import LauncherName, World


def vertex_ai(environ: Mapping[str, str]) -> World | None:
    """The world of `CLUSTER_SPEC`: worker pool 0 is rank 0, pool 1 follows. Source: Vertex AI's page "Distributed training"."""
    return _world(environ, "CLUSTER_SPEC", "vertex-ai", ("workerpool0", "workerpool1"))


def tf_config(environ: Mapping[str, str]) -> World | None:
    """The world of `TF_CONFIG`, as in Kubeflow's TFJob: a chief is rank 0. Source: TensorFlow's page "Multi-worker training"."""
    return _world(environ, "TF_CONFIG", "tf-config", ("chief", "master", "worker"))


def _world(environ: Mapping[str, str], name: str, source: LauncherName, trains: Sequence[str]) -> World | None:
    """The world of a cluster; None for a cluster of one process, and for JSON with another meaning."""
    found = _read(environ, name)
    if found is None or not any(role in found[0] for role in trains):
        return None
    cluster, role, index = found
    places = [(each, i) for each in trains for i in range(len(cluster.get(each, [])))]
    if len(places) < 2:
        return None
    if (role, index) not in places:
        message = f"{name} makes this process {role} {index}, and only {' and '.join(r for r in trains if r in cluster)} train"
        raise LaunchError(message, "leave out parameter servers and evaluators: abreast needs neither")
    addresses = [cluster[each][i] for each, i in places]
    hosts = [address.rpartition(":")[0] or address for address in addresses]
    rank = places.index((role, index))
    here = [i for i, host in enumerate(hosts) if host == hosts[rank]]
    numbers = rank, len(hosts), here.index(rank), len(here)
    per_host = len(set(hosts)) == len(hosts)
    world = World(*numbers, platform.node(), source, *master(environ), per="host" if per_host else "device")
    port = addresses[0].rpartition(":")[2]
    if not port.isdecimal() or int(port) > 65535:
        raise LaunchError(f"{name}: {addresses[0]!r} is not HOST:PORT", HINT)
    return world.reached_at(hosts[0].strip("[]"), int(port))


def _read(environ: Mapping[str, str], name: str) -> tuple[dict[str, list[str]], str, int] | None:
    """The cluster, and the role and number of this process in it."""
    text = environ.get(name)
    if text is None:
        return None
    try:
        whole: Any = json.loads(text)
        if "cluster" not in whole or "task" not in whole:
            return None
        cluster = {str(role): [str(each) for each in addresses] for role, addresses in whole["cluster"].items()}
        return cluster, str(whole["task"]["type"]), int(whole["task"]["index"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise LaunchError(f"{name}={text[:200]!r} does not describe a cluster", HINT) from None
