"""Random generators of the ranks: code without a seed of its own draws different numbers on each rank, and restarts when the
user seeds. Also here: the state of a rank's generators, for `state.py`.
"""

from __future__ import annotations

import functools
import random
from typing import Any, NamedTuple

import keras
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from abreast import exact
from abreast.backend.torch import messages
from abreast.keras_private import global_state
from abreast.keras_private.seeds import set_random_seed

TorchState = tuple[torch.Tensor, list[torch.Tensor]]  # states of the CPU's generator and of the GPUs' generators

_num_seeded = 0
_GO_ON_WITH = "_abreast_generators"  # an attribute of a model


def seeded() -> tuple[int, int]:
    """How often this process was seeded, and the last seed; if the value changes, the workers get a new seed."""
    return _num_seeded, torch.initial_seed()


def seed_of(model: Any) -> int:
    """The user's seed, changed by the number of training steps: a model that is sent again repeats no random numbers."""
    optimizer = getattr(model, "optimizer", None)
    return torch.initial_seed() + 7919 * (0 if optimizer is None else int(optimizer.iterations))


def drawn_on_cpu() -> bytes:
    """The state of the CPU's generator."""
    return torch.get_rng_state().numpy().tobytes()


def seed_rank(seed: int, rank: int) -> None:
    """Seed the generators of torch, NumPy and Python, differently on every rank."""
    set_random_seed((seed + rank * 1_000_003) % 2**32)


def read_torch() -> TorchState:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def are_alike(one: TorchState, other: TorchState) -> bool:
    """Whether two states are equal. Generators of GPUs that one of them lacks do not count."""
    return torch.equal(one[0], other[0]) and all(map(torch.equal, one[1], other[1]))


def write_torch(state: TorchState) -> None:
    on_cpu, on_gpus = state
    torch.set_rng_state(on_cpu)
    for index, each in enumerate(on_gpus):
        torch.cuda.set_rng_state(each, index)


class NotedDraws(TorchDispatchMode):
    """Adds to `found` for each operation of this thread that moves PyTorch's generators: see `exact.announcing_draws`."""

    def __init__(self, found: list[bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        before = read_torch()
        result = func(*args, **kwargs)
        if not are_alike(before, read_torch()):
            self._found.append(exact.is_in_optimizer())
        return result


class Generators(NamedTuple):
    """The states of the generators that `seed_rank` seeds. Keras's is None until Keras makes it."""

    torch: TorchState
    numpy: Any
    python: Any
    keras: Any

    @staticmethod
    def read() -> Generators:
        own = global_state.get_global_attribute(global_state.GLOBAL_SEED_GENERATOR)
        value = None if own is None else np.array(own.state)
        return Generators(read_torch(), np.random.get_state(), random.getstate(), value)

    def put_back(self) -> None:
        own = None
        if self.keras is not None:
            own = keras.random.SeedGenerator(0)
            own.state.assign(self.keras)
        global_state.set_global_attribute(global_state.GLOBAL_SEED_GENERATOR, own)
        write_torch(self.torch)
        np.random.set_state(self.numpy)
        random.setstate(self.python)


def go_on_with(model: Any, states: list[Generators] | None) -> None:
    """Give the workers these states together with the model, unless the user seeds or changes the model before."""
    # Keeps the object of `compile`: after its end, another object could have its identity.
    vars(model)[_GO_ON_WITH] = _moment(model), getattr(model, "_compile_config", None), states


def to_go_on_with(model: Any) -> list[Generators] | None:
    """The states of ranks 1 and up that `go_on_with` got; None if they no longer apply."""
    moment, _, states = vars(model).get(_GO_ON_WITH, (None, None, None))
    return states if states and moment == _moment(model) else None


def _moment(model: Any) -> Any:
    """A value that changes whenever the workers are, or will be, seeded again."""
    return _num_seeded, messages.identity(model)


@functools.cache
def install() -> None:
    """Count calls of `torch.manual_seed`, which may repeat the same seed. Runs once per process."""
    plain = torch.manual_seed

    @functools.wraps(plain)
    def manual_seed(seed: Any) -> torch.Generator:
        global _num_seeded
        _num_seeded += 1
        return plain(seed)

    torch.manual_seed = torch.random.manual_seed = manual_seed
