"""PyTorch under `torchrun`, `srun` or `mpirun`: every process runs the user's script, and is one rank.

Each process reads the same global batches and works on its own rows of them. When a call begins, all ranks get rank 0's variables;
shuffles follow rank 0's random state. Each process has its own Python state, and callbacks run in every process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from abreast import exact
from abreast.backend.agreement import Agreement, digest
from abreast.backend.contract import Kind
from abreast.backend.torch import messages, own_group
from abreast.backend.torch.buffers import Buffers
from abreast.backend.torch.interface import choose_interface
from abreast.backend.torch.job import Job
from abreast.backend.torch.link import TorchLink
from abreast.backend.torch.step import ReplicaStep
from abreast.backend.torch.team_model import TeamModel, keep, team_model_of
from abreast.launchers import World, address_of_rank_0


class Peers:
    """This process as one rank among those that a launcher started."""

    def __init__(self, world: World, device: str) -> None:
        address, _ = address_of_rank_0(world)
        self.world = world
        self.device = device
        on_gpu = device.startswith("gpu:")
        if on_gpu:
            torch.cuda.set_device(int(device.removeprefix("gpu:")))
        choose_interface(address, os.environ, several_hosts=not world.is_on_one_host)
        self.job = Job(world)
        self.agreement = Agreement(self.job)
        if not dist.is_initialized():
            own_group.note()
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
                store=dist.PrefixStore("ranks", self.job.store),  # type: ignore[attr-defined]
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

    def run(self, kind: Kind, known: TeamModel, shard: Any, counts: Sequence[int]) -> Any:
        """Run one step of this rank with its shard, which is on its device already."""
        step = known.step
        step.relations = self._relations.get(step.model)
        # All ranks shuffle alike, while their layers must draw different numbers.
        shuffles = torch.get_rng_state()
        torch.set_rng_state(self._draws)
        try:
            with known.undone_by_failure():
                result = getattr(step, kind)(shard, counts)
        finally:
            self._draws = torch.get_rng_state()
            torch.set_rng_state(shuffles)
        known.seen.add(kind)
        known.remember()
        return result

    def agree_on_relations(self, model: Any) -> None:
        """Use rank 0's findings about a model: from the first step on, all ranks have rank 0's weights."""
        found = exact.related_rows(model) or exact.Relations()
        text = self.agreement.of_rank_0("looks at the rows of a batch", found.steps_part())
        self._relations[model] = exact.Relations.of_steps_part(text)

    def known(self, model: Any, global_batch_norm: bool) -> TeamModel | None:
        """The model as it was at its last step; None if it is new, or has other variables since."""
        known = team_model_of(model)
        return known if known and known.identity == messages.identity(model, global_batch_norm) else None

    def agree_on_variables(self, model: Any, global_batch_norm: bool) -> TeamModel:
        """Variables that a script has set since the last step get the values of rank 0, unless all ranks set the same."""
        known = self.known(model, global_batch_norm)
        variables = messages.numbered_variables(model)
        buffers = Buffers(model, global_batch_norm).tensors()
        tensors = [*(variable._value for variable in variables), *buffers]
        names = [f"{each.path} {tuple(each.shape)} {each.dtype}" for each in variables]
        names += [f"buffer {i} {tuple(each.shape)} {each.dtype}" for i, each in enumerate(buffers)]
        changed = range(len(tensors)) if known is None else _changed(known)
        all_changed, differ = self.agreement.begins_call(names, {i: digest(on_host(tensors[i])) for i in changed})
        if known is None or len(all_changed) == len(tensors):  # it is new to a rank, and then to all
            exact.check_layers(model)
            self.collect_gradients(model)
            identity = messages.identity(model, global_batch_norm)
            known = TeamModel(0, ReplicaStep(model, self.link, global_batch_norm), identity, None)
            keep(model, known)
        messages.broadcast([tensors[i] for i in differ], self.link.group)
        known.remember()
        return known

    def note_assigned(self, known: TeamModel, look: bool) -> None:
        """Note what the user's code has set since the last step of a call."""
        if look:
            known.note_writes()
        variables, buffers = known.changed()
        if not (variables or buffers):
            return
        names = [variable.path for variable in messages.numbered_variables(known.step.model)]
        present = known.step.buffers.tensors()
        for i in variables:
            self.agreement.assigned(names[i], lambda before, i=i: digest(on_host(known.tensors[i]), before))
        for i in buffers:
            self.agreement.assigned(f"buffer {i}", lambda before, i=i: digest(on_host(present[i]), before))

    def collect_gradients(self, model: Any) -> None:
        known = team_model_of(model)
        if known is not None:
            known.step.collect_gradients()


def _changed(known: TeamModel) -> list[int]:
    known.note_writes()
    variables, buffers = known.changed()
    return [*variables, *(len(known.tensors) + index for index in buffers)]


def on_host(tensor: torch.Tensor) -> Any:
    """A copy of a tensor's bytes. Not the tensor's own memory, which would count as shared from then on."""
    return tensor.detach().cpu().clone().reshape(-1).view(torch.uint8).numpy()
