"""A job of several TensorFlow processes: the connections of a process, and its devices. Imports TensorFlow."""

from __future__ import annotations

import contextlib
import os

import tensorflow as tf
from tensorflow.python.eager import context

from abreast import cpu
from abreast.backend.exchange import Exchange
from abreast.backend.joining import join
from abreast.backend.leaving import HINT
from abreast.backend.tensorflow.devices import OWN, device_names, grow_memory, tf_names
from abreast.backend.tensorflow.interrupts import Interrupts
from abreast.backend.tensorflow.processes import Processes, Reach
from abreast.errors import LaunchError, WorkerError
from abreast.hosts.checks import devices
from abreast.hosts.connections import Connecting, Ends
from abreast.hosts.ring import Ring
from abreast.hosts.sums_beside import SumsBeside
from abreast.launchers import World, own_devices


class Job(Exchange):
    """The messages of one job. `reach`: this process's replicas among those of all processes."""

    def __init__(self, world: World) -> None:
        own = _own_devices(world)
        meeting = join(world, "TensorFlow", tf.__version__, len(own))
        connecting = Connecting(meeting)
        self.num_devices = counts = devices(meeting.hellos)
        super().__init__(meeting, lambda: connecting.connections.board)
        self._hosts = meeting.hosts
        self.interrupts = Interrupts()
        self.ring = self._ring(connecting.connections.ring)
        self._gradients = self._ring(connecting.connections.gradients)
        processes = Processes(self.ring, SumsBeside(self._gradients, lambda: self.num_steps))
        self.reach = Reach(sum(counts[: world.rank]), sum(counts), processes)
        OWN[:] = tf_names(own)

    def failed_exchange(self) -> BaseException | None:
        """The error of an exchange of a step; None without one. An error closes both rings, so that other ranks notice it."""
        failed = self.ring.error or self._gradients.error
        if failed is not None:
            self.ring.close()
            self._gradients.close()
        return failed

    def _ring(self, ends: Ends) -> Ring:
        # No time limit: `leaving` notices a silent process, and ends this one.
        return Ring(self.rank, self.size, ends, float("inf"), self.interrupts.look, self._lost)

    def _lost(self, rank: int, how: str) -> WorkerError:
        return WorkerError(f"rank {rank} on host {self._hosts[rank]} {how}", HINT, rank=rank)


def _own_devices(world: World) -> tuple[str, ...]:
    """The devices of this process, the only ones that TensorFlow sees from now on."""
    own = own_devices(world, device_names(), os.environ)
    if own[0].startswith("gpu:"):
        gpus = tf.config.list_physical_devices("GPU")
        try:
            tf.config.set_visible_devices([gpus[int(name.removeprefix("gpu:"))] for name in own], "GPU")
        except RuntimeError as error:
            if set(device_names()) != set(own):
                raise LaunchError(
                    f"{world.source} started {world.size} processes, and TensorFlow has started in this one with all GPUs",
                    "start the script with `abreast run`, or make the model inside of `with abreast.DataParallel()`, before "
                    "anything is computed",
                ) from error
    grow_memory()
    _let_buckets_go()
    context.ensure_initialized()
    return own


def _let_buckets_go() -> None:
    """Give TensorFlow two threads for operations: a single one would send gradients only after the backward pass."""
    if cpu.num_cores() == 1 and not tf.config.threading.get_inter_op_parallelism_threads():
        with contextlib.suppress(RuntimeError):  # TensorFlow has started
            tf.config.threading.set_inter_op_parallelism_threads(2)
