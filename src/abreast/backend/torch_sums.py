"""What the ranks of PyTorch add up in a step: the gradients of the weights, and the state of metrics.

Gradients of a large model go through DDP, whose buckets overlap backward. Those of a small one go with the metrics in one
message: waiting for a second one would cost more than it hides. Imports torch, Keras, `exact` and `torch_link`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from abreast import exact
from abreast.backend.torch_link import TorchLink
from abreast.errors import ModelError

_SMALL = 2**17  # weights whose gradients fill 1 MiB in a message of float64


class Gradients:
    """The gradients of a replica's weights, each rank's own until they are summed.

    The first step learns which weights the loss depends on. Loss contributions are taken times `factor` before backward.
    """

    def __init__(self, model: Any, link: TorchLink, forward: torch.nn.Module) -> None:
        self.link = link
        self.model = model
        self.is_small = sum(weight.value.numel() for weight in model.trainable_weights) <= _SMALL
        self.factor = 1 if self.is_small else link.num_replicas  # DDP divides by the number of ranks
        self.forward: Any = forward
        self._present: list[bool] | None = None  # on this rank
        self._used: list[bool] = []  # on any rank
        self._everywhere = True  # on any rank means on all

    @property
    def is_known(self) -> bool:
        """Whether there has been a first step."""
        return self._present is not None

    def kept_apart(self) -> AbstractContextManager[None]:
        """Backward inside leaves each rank its own gradients."""
        if isinstance(self.forward, DistributedDataParallel):
            return self.forward.no_sync()
        return nullcontext()

    @torch.no_grad()
    def own(self) -> list[torch.Tensor]:
        """This rank's gradients of what the loss depends on, to sum in place. Raises `ModelError` when that changes."""
        weights = self.model.trainable_weights
        present = [weight.value.grad is not None for weight in weights]
        if self._present is None:
            self._present = present
            count = self.link.all_sum(torch.tensor(present, dtype=torch.int32, device=weights[0].value.device)).tolist()
            self._used = [ranks > 0 for ranks in count]
            self._everywhere = all(ranks in (0, self.link.num_replicas) for ranks in count)
        if present != self._present:
            index = next(i for i, there in enumerate(present) if there != self._present[i])
            then, now = ("did not", "does") if present[index] else ("did", "does not")
            raise ModelError(
                f"at the first step the loss {then} depend on {weights[index].path}, and now it {now}",
                "use every weight at every step; to leave a layer out, multiply what it gives by 0",
            )
        parameters = [weight.value for weight, is_used in zip(weights, self._used, strict=True) if is_used]
        for parameter in parameters:
            if parameter.grad is None:  # another rank has one
                parameter.grad = torch.zeros_like(parameter)
        return [parameter.grad for parameter in parameters]

    @torch.no_grad()
    def sum_kept(self) -> list[torch.Tensor | None]:
        """The sums of what `kept_apart` left, one per trainable weight; then the ranks hold none."""
        self.own()
        sums = []
        for weight in self.model.trainable_weights:
            gradient = weight.value.grad
            sums.append(None if gradient is None else self.link.all_sum(gradient) / self.factor)
            weight.value.grad = None
        return sums

    @torch.no_grad()
    def finish(self) -> None:
        """After a backward whose gradients were not kept apart, of a large model: DDP has summed them, once it exists."""
        if self.is_small or self.link.num_replicas == 1:
            return
        gradients = self.own()
        if not isinstance(self.forward, DistributedDataParallel):
            sums = [self.link.all_sum(gradient) / self.factor for gradient in gradients]
            self._start_ddp()
            for gradient, total in zip(gradients, sums, strict=True):
                gradient.copy_(total)

    def _start_ddp(self) -> None:
        wanted = {
            id(weight.value)
            for weight, is_used in zip(self.model.trainable_weights, self._used, strict=True)
            if is_used
        }
        ignored = [name for name, parameter in self.forward.named_parameters() if id(parameter) not in wanted]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.forward, ignored)
        kept = [(weight.value, weight.value.grad) for weight in self.model.trainable_weights]
        with warnings.catch_warnings():  # torch 2.13 renames broadcast_buffers, without a name for what we mean yet
            warnings.simplefilter("ignore", FutureWarning)
            self.forward = DistributedDataParallel(
                self.forward,
                process_group=self.link.group,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                find_unused_parameters=not self._everywhere,
                init_sync=False,
            )
        for parameter, gradient in kept:
            parameter.grad = gradient
        self._present = self._used


class State:
    """Variables that each rank adds to, and that must hold the sum over ranks after a step: metric states.

    State that follows a replica's own rows too (moving statistics of local BatchNormalization), as means over the rows.
    """

    def __init__(self, model: Any, link: TorchLink, global_batch_norm: bool) -> None:
        self.model = model
        self.link = link
        self.global_batch_norm = global_batch_norm
        self._tensors: list[torch.Tensor] = []
        self._summed: list[torch.Tensor] = []
        self._parts: Sequence[torch.Tensor] = ()
        self._work: Any = None

    @contextmanager
    def update(self) -> Iterator[None]:
        """Sum what the ranks add to the metrics inside."""
        self.begin()
        yield
        self.start()
        self.finish()

    @torch.no_grad()
    def begin(self) -> None:
        """From here on the metrics hold what this rank adds; rank 0's also what they held."""
        self._tensors = [
            variable.value
            for metric in exact.leaf_metrics(self.model)
            if exact.adds_up(metric)
            for variable in metric.variables
        ]
        if self.link.index > 0:
            for tensor in self._tensors:
                tensor.zero_()

    @torch.no_grad()
    def start(self, gradients: Sequence[torch.Tensor] = ()) -> None:
        """Begin to sum, the gradients in the same message; `finish` waits for it."""
        running = exact.current()
        assert running is not None
        averaged = [v.value for v in exact.diverging_variables(self.model, self.global_batch_norm)]
        self._summed = [*gradients, *self._tensors, *averaged]
        if not self._summed:
            return
        sizes = [tensor.numel() for tensor in self._summed]
        flat = torch.empty(sum(sizes), dtype=torch.float64, device=self._summed[0].device)
        torch.cat([tensor.reshape(-1) for tensor in self._summed], out=flat)
        if averaged:
            flat[-sum(tensor.numel() for tensor in averaged) :] *= running.weight
        self._parts = flat.split(sizes)
        self._work = self.link.start_sum(flat)

    @torch.no_grad()
    def finish(self) -> None:
        if not self._summed:
            return
        if self._work is not None:
            with self.link.waiting():
                self._work.wait()
        parts = [part.view(tensor.shape) for tensor, part in zip(self._summed, self._parts, strict=True)]
        torch._foreach_copy_(self._summed, parts)
