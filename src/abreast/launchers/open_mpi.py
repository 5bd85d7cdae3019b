"""Processes of Open MPI's mpirun. Versions 4 and 5 give a process no address of rank 0, only different hints of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abreast.launchers.variables import port_of_job, world_of
from abreast.launchers.world import World


def open_mpi(environ: Mapping[str, str]) -> World | None:
    """The world that mpirun reports. Rank 0's address: loopback on one host; else mpirun's own host, if rank 0 runs there."""
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    found = world_of(environ, "openmpi", names, ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"))
    job = environ.get("PMIX_NAMESPACE")
    if found is None or job is None:
        return found
    address, is_here = _version_5(environ) or _version_4(environ) or (None, False)
    if found.rank == 0 and not is_here:
        address = None
    return found.reached_at(address, port_of_job(job))


def _version_5(environ: Mapping[str, str]) -> tuple[str | None, bool] | None:
    """The host of mpirun, and whether it is this host. The namespace has the form `prterun-HOST-PID@1`."""
    named = re.fullmatch(r"prterun-(.+)-\d+@\d+", environ.get("PMIX_NAMESPACE", ""))
    return None if named is None else (named[1], named[1] == environ.get("PMIX_HOSTNAME"))


def _version_4(environ: Mapping[str, str]) -> tuple[str | None, bool] | None:
    """The same for version 4. The URI is `JOB;tcp://ADDRESS:PORT`; one of several addresses may belong to a bridge there."""
    uri = environ.get("OMPI_MCA_orte_hnp_uri")
    if uri is None:
        return None
    named = re.search(r";tcp://([^,:]+):\d+", uri)
    return (named and named[1], uri == environ.get("OMPI_MCA_orte_local_daemon_uri"))
