"""PyTorch's part of the row check before the first step: the model runs in rank 0's process."""

from __future__ import annotations

import copy
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from abreast import exact
from abreast.backend.torch import batch_norm, memory, seeds
from abreast.backend.torch.buffers import Buffers
from abreast.backend.torch.sums import dense_ones
from abreast.backend.torch.written_storages import WrittenStorages


class _Operations(TorchDispatchMode):
    """Notes operations of this thread that may draw random numbers (with some arguments they draw none) or read values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._thread = threading.get_ident()
        self.draw = False
        self.storages = WrittenStorages([])
        self.read_values = False  # by the user's code
        self.depend_on_values = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.draw = self.draw or torch.Tag.nondeterministic_seeded in func.tags
        reads = torch.Tag.data_dependent_output in func.tags
        if (reads and not exact.is_result(args[0])) or torch.Tag.dynamic_output_shape in func.tags:
            self.note(reads, list(_frames_from(sys._getframe(1))))
        self.storages.before(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        self.storages.after(func, args, kwargs, result)
        return result

    def note_conversion(self, tensor: torch.Tensor) -> None:
        """Note a read of values that is no operation of PyTorch: as an array of NumPy, or as a list."""
        if self._thread == threading.get_ident() and not exact.is_result(tensor):
            self.note(True, list(_frames_from(sys._getframe(1))))

    def note(self, reads: bool, frames: list[tuple[str, str]]) -> None:
        """Whose code wants the values: not the check's own or an optimizer's; Keras's layers and random numbers take one path."""
        if self.storages.is_optimizing:
            return
        innermost, function = frames[0] if frames else ("torch.", "")  # a thread of autograd runs no Python code
        asked = (module for module, _ in frames if not module.startswith(_FOR_OTHERS))
        asking = innermost if innermost == _SEEDS else next(asked, "torch.")
        by_user = not asking.startswith(_NOT_USERS)
        self.depend_on_values = self.depend_on_values or by_user
        branches = innermost == _CORE and function in ("cond", "switch", "transform", "convert_to_numpy")
        self.read_values = self.read_values or (reads and by_user and (branches or asking == innermost))


_NOT_USERS = ("abreast.", "keras.", "torch.")
_SEEDS = "keras.src.backend.torch.random"
_CORE = "keras.src.backend.torch.core"
# Code of Keras that works for whoever calls it.
_FOR_OTHERS = ("keras.src.backend.", "keras.src.ops.", "keras.src.utils.", "keras.src.tree.", "optree")


def _frames_from(frame: types.FrameType | None) -> Iterator[tuple[str, str]]:
    """The names of module and function in a frame and its callers, without PyTorch's and our wrappers of its methods."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] != "torch" and name not in (__name__, memory.__name__):
            yield name, frame.f_code.co_name
        frame = frame.f_back


class TorchProbe:
    """See `exact.Probe`."""

    def __init__(self, model: Any, on_gpu: bool, with_gradients: bool) -> None:
        self._model, self._with_gradients = model, with_gradients
        self.noise = 4e-3 if on_gpu else 3e-6  # a GPU's kernels are chosen by the number of rows
        batch_norm.install()
        memory.note_requests()
        self._drawn: Any = None
        self._operations = _Operations()
        self.is_one_process = False
        self.has_own_python = True

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        _hold_schedules()
        self._drawn = seeds.read_torch()
        optimizers: dict[Any, Any] = {}
        storages = self._operations.storages = WrittenStorages(self._model.variables)

        def begin(optimizer: Any, *_: Any) -> None:
            _note(optimizer, optimizers)
            storages.is_optimizing = True

        def end(*_: Any) -> None:
            storages.is_optimizing = False

        handles = register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)
        gradients = [(parameter, parameter.grad) for parameter in self._model.parameters()]
        buffers = Buffers(self._model, global_batch_norm=False)
        buffers.keep()
        for parameter, _ in gradients:
            parameter.grad = None
        memory.ON_READ.append(self._operations.note_conversion)
        try:
            with torch.set_grad_enabled(self._with_gradients), self._operations:
                yield
        finally:
            memory.ON_READ.remove(self._operations.note_conversion)
            for handle in handles:
                handle.remove()
            for optimizer, state in optimizers.items():
                optimizer.state.clear()
                optimizer.state.update(state)
            for parameter, gradient in gradients:
                parameter.grad = gradient
            buffers.put_back()
            self.rewind()
            self._operations.storages = WrittenStorages([])

    def rewind(self, generators: bool = True) -> None:
        self._operations.storages.put_back()
        if generators:
            seeds.write_torch(self._drawn)

    def drew(self) -> bool:
        return self._operations.draw and not seeds.are_alike(self._drawn, seeds.read_torch())

    def reads_values(self) -> bool:
        return self._operations.read_values

    def depends_on_values(self) -> bool:
        return self._operations.depend_on_values

    def gradients(self, compute: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> list[Any] | None:
        tensors = [value.detach().clone().requires_grad_() for value in values]
        with torch.enable_grad():
            number = compute(tensors)
            if number is None:
                return None
            # Modules of PyTorch compute with their own parameters.
            own = [value if value.requires_grad else each for value, each in zip(values, tensors, strict=True)]
            found = torch.autograd.grad(number, [*tensors, *own], allow_unused=True)
            pairs = zip(found[: len(tensors)], found[len(tensors) :], strict=True)
            return dense_ones([parameters if ours is None else ours for ours, parameters in pairs])

    def foreign(self) -> str:
        return ""


def _hold_schedules() -> None:
    """Let runs of ours make no step of PyTorch's schedules of the learning rate and of its gradient scalers."""
    todo: list[Any] = [torch.optim.lr_scheduler.LRScheduler]
    while todo:
        kind = todo.pop()
        todo.extend(kind.__subclasses__())
        _hold(kind, "step", None)
    _hold(torch.amp.GradScaler, "update", _forget_step)


def _hold(kind: Any, name: str, instead: Any) -> None:
    plain = vars(kind).get(name)
    if plain is None or hasattr(plain, "_abreast_plain"):
        return

    @functools.wraps(plain)
    def unless_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if exact.running() is None:
            return plain(self, *args, **kwargs)
        return None if instead is None else instead(self)

    unless_run._abreast_plain = plain  # type: ignore[attr-defined]
    setattr(kind, name, unless_run)


def _forget_step(scaler: Any) -> None:
    if scaler.is_enabled():
        scaler._per_optimizer_states.clear()


def _note(optimizer: Any, known: dict[Any, Any]) -> None:
    """Let one of PyTorch's own optimizers work on a copy of its state, from its first step in a run; record its gradients.

    The state itself stays as it is, also for a `state_dict` that the user holds.
    """
    run = exact.running()
    if run is None:
        return
    if optimizer not in known:
        with _disable_current_modes():  # these writes are not the step's
            known[optimizer] = dict(optimizer.state)
            optimizer.state.update({parameter: copy.deepcopy(state) for parameter, state in known[optimizer].items()})
    run.note_gradients(dense_ones([each.grad for group in optimizer.param_groups for each in group["params"]]))
