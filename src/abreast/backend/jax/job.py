"""A job of several JAX processes: how a process joins it, and JAX's service as its board (`exchange.py`). Imports JAX."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src import distributed, xla_bridge
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from abreast.backend.exchange import Exchange
from abreast.backend.jax.devices import gpus_of_driver, index_of
from abreast.backend.joining import join
from abreast.errors import LaunchError
from abreast.hosts import Meeting, free_port
from abreast.hosts.end_filter import hide_end
from abreast.launchers import World, address_of_rank_0, own_devices, read_world
from abreast.launchers.route import with_port

_CORE: Any = vars(xla_bridge)["_jax"]
# After a shorter time JAX would end this process by SIGABRT; `leaving.py` notices processes that are gone.
_HEARTBEAT_SECONDS = 7 * 24 * 3600
_CONNECT_SECONDS = 300
_ATTEMPTS = 5  # another program may take a port before the service does


class Job(Exchange):
    """The messages of one job, sent over JAX's service, not over the devices."""

    def __init__(self, world: World) -> None:
        meeting = _met(world)
        port = _port_of_service(meeting)
        super().__init__(meeting, lambda: _joined(meeting, port))
        with self.leaving.waiting():
            processes = [device.process_index for device in jax.devices()]
            self.num_devices = tuple(processes.count(rank) for rank in range(world.size))
            _connect()


class _Service:
    """See `Board`."""

    def __init__(self, client: Any, is_end_hidden: bool) -> None:
        self._client, self._is_end_hidden = client, is_end_hidden

    def write(self, key: str, value: bytes) -> None:
        self._client.key_value_set_bytes(key, value, allow_overwrite=True)

    def read(self, keys: Sequence[str], seconds: float) -> list[bytes] | None:
        try:
            return [self._client.blocking_key_value_get_bytes(key, int(1000 * seconds)) for key in keys]
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None

    def erase(self, key: str) -> None:
        self._client.key_value_delete(key)

    def close(self) -> None:
        """Keep JAX's exit from waiting for all processes again, which would take minutes if one died now.

        The service must not end before rank 0's process does, and that end is hidden: JAX would abort the remaining processes.
        """
        state = distributed.global_state
        if self._is_end_hidden:
            for kept in (state.client, state.service):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # never destroyed
            state.client = state.service = None


def refuse_other_jobs() -> None:
    """Raise `LaunchError` if the script itself has joined JAX to a job: each process would train by itself."""
    if distributed.global_state.client is not None:
        raise LaunchError(
            "jax.distributed.initialize was called before abreast could join the processes",
            "leave out Ray's JaxTrainer, and start the script with `abreast.ray.trainer` or `abreast run --ray`"
            if read_world().source == "ray"
            else "leave it out: abreast reads the variables of the launcher (docs/reference/environment.md) and does this itself",
        )


def _met(world: World) -> Meeting:
    """The meeting of the processes before JAX joins them. Raises `LaunchError` if this process cannot join."""
    refuse_other_jobs()
    address_of_rank_0(world)  # raises if there is none
    if xla_bridge.backends_are_initialized():
        raise LaunchError(
            f"{world.source} started {world.size} processes, and JAX has started in this one before it could join them",
            "start the script with `abreast run`, or make the model inside of `with abreast.DataParallel()`, before anything "
            "is computed",
        )
    jax.config.update("jax_enable_preemption_service", False)  # it would swallow SIGTERM
    gpus = _own_gpus(world)
    if gpus:
        jax.config.update("jax_cuda_visible_devices", ",".join(map(str, gpus)))
    meeting = join(world, "JAX", jax.__version__, len(gpus) or max(1, getattr(jax.config, "jax_num_cpu_devices", 1)))
    _use_address(meeting.own_address)
    return meeting


def _joined(meeting: Meeting, port: int) -> _Service:
    """JAX's service at this port of rank 0, joined by this process."""
    own, address = meeting.member, meeting.address_of_rank_0
    state = distributed.global_state
    try:
        client = _CORE.get_distributed_runtime_client(
            with_port(address, port),
            own.rank,
            init_timeout=_CONNECT_SECONDS,
            heartbeat_timeout=_HEARTBEAT_SECONDS,
            shutdown_on_destruction=False,
            use_compression=True,
        )
        client.connect()
    except RuntimeError as error:
        raise LaunchError(
            f"rank {own.rank} cannot join rank 0 at {with_port(address, port)}: {str(error).splitlines()[0]}",
            "check that all processes run, and that no firewall closes the ports of rank 0's host",
        ) from error
    state.client, state.process_id, state.num_processes = client, own.rank, own.size
    state.coordinator_address = with_port(address, port)
    # Without this, JAX aborts this process when rank 0 ends, before `leaving.py` can report it.
    return _Service(client, is_end_hidden=hide_end(address, port) > 0)


def _port_of_service(meeting: Meeting) -> int:
    """The port of JAX's service, which rank 0 starts here at a free port."""
    own = meeting.member
    port = 0
    if own.rank == 0:
        for attempt in range(_ATTEMPTS):
            port = free_port(meeting.own_address)
            try:
                distributed.global_state.service = _CORE.get_distributed_runtime_service(
                    with_port(meeting.own_address, port), own.size, heartbeat_timeout=_HEARTBEAT_SECONDS
                )
                break
            except RuntimeError:
                if attempt == _ATTEMPTS - 1:
                    raise
    return int(meeting.exchange(str(port).encode())[0])


def _connect() -> None:
    """Connect the processes to one another. Redirects Gloo's message about it to stderr: stdout is for the script's data."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        of_rank_0(np.zeros(1, np.uint8))
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def of_rank_0(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rank 0's value, bit for bit, sent over the devices. All processes call this with integers of one shape and type.

    JAX's own broadcast requires the same number of devices in each process.
    """
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    source = next(device for device in jax.devices() if device.process_index == 0)
    nothing = np.zeros_like(value)
    parts = [jax.device_put((value if each == source else nothing)[None], each) for each in jax.local_devices()]
    shape, rows = (mesh.size, *value.shape), NamedSharding(mesh, PartitionSpec("batch"))
    total = jax.jit(lambda each: each.sum(0, dtype=each.dtype), out_shardings=NamedSharding(mesh, PartitionSpec()))
    return np.asarray(total(jax.make_array_from_single_device_arrays(shape, rows, parts)).addressable_data(0))


def _use_address(address: str) -> None:
    """Use the interface of `address` for the processes' connections on the CPU. JAX would use that of the host's name."""
    _CORE.make_gloo_tcp_collectives = functools.partial(_CORE.make_gloo_tcp_collectives, hostname=address)


def _own_gpus(world: World) -> list[int]:
    """The GPUs of this process, by the driver's numbers; none on the CPU."""
    gpus = gpus_of_driver()
    return [index_of(name) for name in own_devices(world, gpus, os.environ)] if gpus else []
