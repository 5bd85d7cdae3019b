"""Numbers that any program may set: JAX's, which Kubeflow's TrainJob sets too, and Keras's `KERAS_DISTRIBUTION_*`."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from abreast.errors import LaunchError
from abreast.launchers.hosts import of_hosts
from abreast.launchers.variables import address_and_port, rank_and_size
from abreast.launchers.world import World


def jax(environ: Mapping[str, str]) -> World | None:
    """The world of JAX's variables, one process per pod. `JAX_COORDINATOR_ADDRESS` alone is for another launcher's numbers.

    Source: the JAX plugin of Kubeflow's trainer.
    """
    found = of_hosts(environ, "jax", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES")
    if found is None:
        return None
    address, port = address_and_port(environ, "JAX_COORDINATOR_ADDRESS")
    return found if port is None else found.reached_at(address, port)


def keras(environ: Mapping[str, str]) -> World | None:
    """The world of Keras's variables, read like `keras.distribution.initialize`. JAX needs only the first process's address."""
    addresses = environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES", "").split(",")
    environ = dict(environ)
    if len(addresses) > 1:
        given = environ.setdefault("KERAS_DISTRIBUTION_NUM_PROCESSES", str(len(addresses)))
        if given != str(len(addresses)):
            message = (
                f"KERAS_DISTRIBUTION_NUM_PROCESSES={given!r}, but KERAS_DISTRIBUTION_JOB_ADDRESSES has {len(addresses)}"
            )
            raise LaunchError(message, "give one address per process")
    found = rank_and_size(environ, "KERAS_DISTRIBUTION_PROCESS_ID", "KERAS_DISTRIBUTION_NUM_PROCESSES")
    if found is None:
        return None
    process, size = found
    hosts = [address.strip().rpartition(":")[0] or address.strip() for address in addresses]
    here = [i for i, host in enumerate(hosts) if host == hosts[process]] if len(hosts) == size else [process]
    _, _, port = addresses[0].strip().rpartition(":")
    return World(
        *(process, size, here.index(process), len(here)),
        hosts[process] if len(hosts) == size and hosts[process] else platform.node(),
        "keras",
        hosts[0] or None,
        int(port) if port.isdecimal() else None,
    )
