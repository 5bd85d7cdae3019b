"""PyTorch under `torchrun`, `srun` or `mpirun`: every process runs the user's script, and is one rank.

Each process reads the same global batches and works on its own rows of them. When a model is first used, all ranks get rank 0's
variables; shuffles follow rank 0's random state. Each process has its own Python state, and callbacks run in every process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from abreast import exact
from abreast.backend import order
from abreast.backend.contract import Kind
from abreast.backend.torch import messages, own_group
from abreast.backend.torch.interface import choose_interface
from abreast.backend.torch.link import TorchLink
from abreast.backend.torch.step import ReplicaStep
from abreast.launchers import World, address_of_rank_0

# The attribute in which a model keeps its fingerprint and step. They refer to the model, so a table would keep it alive for ever.
_STEP = "_abreast_step"


class Peers:
    """This process as one rank among those that a launcher started."""

    def __init__(self, world: World, device: str) -> None:
        address, port = address_of_rank_0(world)
        self.world = world
        self.device = device
        on_gpu = device.startswith("gpu:")
        if on_gpu:
            torch.cuda.set_device(int(device.removeprefix("gpu:")))
        choose_interface(address, os.environ, several_hosts=not world.is_on_one_host)
        if not dist.is_initialized():
            own_group.note()
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
                init_method=f"tcp://{address}:{port}",
                rank=world.rank,
                world_size=world.size,
            )
        self.link = TorchLink(dist.group.WORLD, world.rank, world.size)
        shuffles = torch.get_rng_state()
        # Only torch's generator; the seeds of Python and NumPy are the script's own.
        torch.manual_seed((torch.initial_seed() + world.rank * 1_000_003) % 2**63)
        self._draws = torch.get_rng_state()
        torch.set_rng_state(shuffles)
        self._relations: WeakKeyDictionary[Any, exact.Relations | None] = WeakKeyDictionary()

    def run(self, kind: Kind, model: Any, shard: Any, counts: Sequence[int], global_batch_norm: bool) -> Any:
        """Run one step of this rank with its shard, which is on its device already."""
        step = self._step(model, global_batch_norm)
        step.relations = self._relations.get(model)
        # All ranks shuffle alike, while their layers must draw different numbers.
        shuffles = torch.get_rng_state()
        torch.set_rng_state(self._draws)
        try:
            return getattr(step, kind)(shard, counts)
        finally:
            self._draws = torch.get_rng_state()
            torch.set_rng_state(shuffles)

    def agree_on_relations(self, model: Any) -> None:
        """Use rank 0's findings about a model: from the first step on, all ranks have rank 0's weights."""
        found = exact.related_rows(model) or exact.Relations()
        text = self._text_of_rank_0(found.steps_part())
        self._relations[model] = exact.Relations.of_steps_part(text)

    def _text_of_rank_0(self, text: str) -> str:
        own = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        length = torch.tensor([len(own)])
        dist.broadcast(length, src=0)
        data = own if self.world.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(data, src=0)
        return bytes(data.tolist()).decode()

    def agree_on_order(self) -> None:
        """Give every rank the random state that rank 0 shuffles with."""
        generator = torch.get_rng_state()
        dist.broadcast(generator, src=0)
        torch.set_rng_state(generator)
        order.restore(self._text_of_rank_0(order.save()))

    def _step(self, model: Any, global_batch_norm: bool) -> ReplicaStep:
        known = vars(model).get(_STEP)
        now = messages.identity(model, global_batch_norm)
        if known is None or known[0] != now:
            exact.check_layers(model)
            self.collect_gradients(model)
            variables = messages.numbered_variables(model)
            known = vars(model)[_STEP] = (now, ReplicaStep(model, self.link, global_batch_norm))
            everything = [*(variable.value for variable in variables), *known[1].buffers.tensors()]
            messages.broadcast(everything, self.link.group)
        step: ReplicaStep = known[1]
        return step

    def collect_gradients(self, model: Any) -> None:
        known = vars(model).get(_STEP)
        if known is not None:
            known[1].collect_gradients()
