"""A job of several processes of JAX: how a process joins it, and the messages that processes give one another.

Messages go over the service of JAX, not over the devices. Imports JAX.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src import distributed, xla_bridge
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from abreast.backend.jax.devices import gpus_of_driver, index_of
from abreast.backend.jax.leaving import Leaving
from abreast.errors import LaunchError, WorkerError
from abreast.launchers import World, address_of_rank_0, own_devices
from abreast.launchers.route import DEFAULT_ROUTE, own_address_towards
from abreast.launchers.world import LOOPBACK

_CORE: Any = vars(xla_bridge)["_jax"]
_HEARTBEAT_SECONDS = 7 * 24 * 3600  # JAX would end this process by SIGABRT; `leaving.py` notices who is gone
_CONNECT_SECONDS = 300
_LOOK_MS = 1000
_END = b"\n"  # of what a process is doing, in a message
_PORTS_ABOVE_TORCHRUN = 1  # torchrun keeps a store at MASTER_PORT


class Job:
    """The messages of one job. Every process calls the same methods in the same order, from the thread of its call."""

    def __init__(self, world: World) -> None:
        self.rank, self._size = world.rank, world.size
        self._client = _joined(world)
        self.num_steps = self.num_messages = 0
        self.leaving = Leaving(self._client, world.rank, world.size, lambda: (self.num_steps, self.num_messages))
        self.device_names = _names(jax.devices())
        _connect()

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        """The messages of all ranks, in their order. Raises `WorkerError` if another process is `doing` something else."""
        self.num_messages += 1
        number = self.num_messages
        self._client.key_value_set_bytes(self._key(number, self.rank), doing.encode() + _END + own)
        with self.leaving.waiting():
            found = [self._message(number, rank).split(_END, 1) for rank in range(self._size)]
        if number > 1:  # all have read the message before: they have written this one
            self._client.key_value_delete(self._key(number - 1, self.rank))
        rank = next((rank for rank, (theirs, _) in enumerate(found) if theirs != found[0][0]), None)
        if rank is not None:
            raise _apart(f"rank 0 {found[0][0].decode()}, and rank {rank} {found[rank][0].decode()}")
        return [message for _, message in found]

    def _message(self, number: int, rank: int) -> bytes:
        """The message of a rank; short waits let Ctrl+C through. Raises `WorkerError` where it can never come."""
        while True:
            try:
                message: bytes = self._client.blocking_key_value_get_bytes(self._key(number, rank), _LOOK_MS)
                return message
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise
            steps, messages = self.leaving.progress(rank)
            if steps > self.num_steps and messages < number:  # that step waits for this process, and this one for it
                raise _apart(f"rank {rank} makes a step that rank {self.rank} does not make")

    def _key(self, number: int, rank: int) -> str:
        return f"abreast/{number}/{rank}"


def _apart(what: str) -> WorkerError:
    return WorkerError(
        f"the processes do different things: {what}",
        "make the same calls on the same batches in every process: none only where `is_main_process()` is true, and stop "
        "all of them at the same epoch",
    )


def refuse_other_jobs() -> None:
    """Raises `LaunchError` if the script itself has made JAX a part of a job: each process would train by itself."""
    if distributed.global_state.client is not None:
        raise LaunchError(
            "jax.distributed.initialize was called before abreast could join the processes",
            "leave it out: abreast reads the variables of the launcher (docs/reference/environment.md) and does this itself",
        )


def _joined(world: World) -> Any:
    """JAX's service, joined by this process. Raises `LaunchError` where that cannot be."""
    refuse_other_jobs()
    address, port = address_of_rank_0(world)
    if xla_bridge.backends_are_initialized():
        raise LaunchError(
            f"{world.source} started {world.size} processes, and JAX has started in this one before it could join them",
            "start the script with `abreast run`, or make the model inside of `with abreast.DataParallel()`, before anything "
            "is computed",
        )
    own, address = _addresses(world, address)
    port += _PORTS_ABOVE_TORCHRUN if "TORCHELASTIC_RUN_ID" in os.environ else 0
    jax.config.update("jax_enable_preemption_service", False)  # it would swallow SIGTERM
    if gpus := _own_gpus(world):
        jax.config.update("jax_cuda_visible_devices", ",".join(map(str, gpus)))
    _use_address(own)
    state = distributed.global_state
    try:
        if world.rank == 0:
            state.service = _CORE.get_distributed_runtime_service(
                _with_port(own, port), world.size, heartbeat_timeout=_HEARTBEAT_SECONDS
            )
        client = _CORE.get_distributed_runtime_client(
            _with_port(address, port),
            world.rank,
            init_timeout=_CONNECT_SECONDS,
            heartbeat_timeout=_HEARTBEAT_SECONDS,
            shutdown_on_destruction=False,
            use_compression=True,
        )
        client.connect()
    except RuntimeError as error:
        raise LaunchError(
            f"rank {world.rank} cannot join rank 0 at {_with_port(address, port)}: {str(error).splitlines()[0]}",
            "check that all processes run, that this is an address of rank 0's host, and that its port is free",
        ) from error
    state.client, state.process_id, state.num_processes = client, world.rank, world.size
    state.coordinator_address = _with_port(address, port)
    return client


def _connect() -> None:
    """Let the processes connect to one another. Gloo prints that to the standard output, where a script's data goes."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        multihost_utils.broadcast_one_to_all(np.zeros(1))
        rows = NamedSharding(Mesh(np.array(jax.devices()), ("batch",)), PartitionSpec("batch"))
        ones = jax.make_array_from_callback((len(jax.devices()),), rows, lambda _: np.ones(1))
        jax.block_until_ready(jax.jit(lambda each: each.sum())(ones))
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _use_address(address: str) -> None:
    """Let the processes' connections on the CPU use the interface of `address`. JAX would take that of the host's own name."""
    _CORE.make_gloo_tcp_collectives = functools.partial(_CORE.make_gloo_tcp_collectives, hostname=address)


def _addresses(world: World, address: str) -> tuple[str, str]:
    """The address of this host that the others reach, and that of rank 0 as this host reaches it.

    The name of rank 0 may stand for the loopback on its own host. The others then reach it by the default route.
    """
    own = own_address_towards(address)
    if own is not None:
        return own, own if world.rank == 0 else address
    own = LOOPBACK if world.is_on_one_host else own_address_towards(DEFAULT_ROUTE) or LOOPBACK
    return own, own


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _own_gpus(world: World) -> list[int]:
    """The GPUs of this process, by the driver's numbers; none on the CPU."""
    gpus = gpus_of_driver()
    return [index_of(name) for name in own_devices(world, gpus, os.environ)] if gpus else []


def _names(devices: Sequence[Any]) -> tuple[str, ...]:
    """As `rank:1`, or `rank:1/0` and `rank:1/1` where a process has several devices."""
    count = {rank: sum(d.process_index == rank for d in devices) for rank in {d.process_index for d in devices}}
    places = {rank: iter(range(number)) for rank, number in count.items()}
    several = max(count.values()) > 1
    return tuple(f"rank:{d.process_index}" + (f"/{next(places[d.process_index])}" if several else "") for d in devices)
