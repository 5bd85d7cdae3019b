"""What the ranks of PyTorch add up in a step: the gradients of the weights, and the state of metrics.

Gradients of a large model go through DDP, whose buckets overlap backward. Those of a small one go with the metrics in one
message: waiting for a second one would cost more than it hides. Imports torch, Keras, `exact` and `torch_link`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from abreast import exact
from abreast.backend.torch.buffers import Buffers
from abreast.backend.torch.link import TorchLink, leave_span
from abreast.errors import ModelError

_SMALL = 2**17  # weights whose gradients fill half a MiB


class Gradients:
    """The gradients of a replica's trainable weights: each rank's own after its backward, until they are summed.

    The first step learns which weights the loss depends on. Where that is the same on all ranks, DDP sums those of a large
    model from the second step on.
    """

    def __init__(self, model: Any, link: TorchLink, module: torch.nn.Module) -> None:
        self.link = link
        self.weights = list(model.trainable_weights)
        self.is_small = sum(weight.value.numel() for weight in self.weights) <= _SMALL
        self._module = module
        self._ddp: DistributedDataParallel | None = None
        self._present: list[bool] | None = None  # on this rank
        self._used: list[bool] = []  # on any rank
        self._last_bucket_ns = [0]  # when DDP began to sum its last one

    @property
    def forward(self) -> Any:
        """The module, or DDP around it."""
        return self._ddp or self._module

    @property
    def is_known(self) -> bool:
        """Whether there has been a first step."""
        return self._present is not None

    @property
    def overlaps(self) -> bool:
        """Whether backward sums the gradients."""
        return self._ddp is not None

    def backward(self, target: torch.Tensor) -> None:
        """Compute the gradients. What is left to sum when the last ones are there is not hidden, and leaves a span."""
        self._last_bucket_ns[0] = 0
        with self.link.waiting():
            target.backward()
        if self._last_bucket_ns[0]:
            leave_span(self._last_bucket_ns[0])

    def kept_apart(self) -> AbstractContextManager[None]:
        """Backward inside leaves each rank its own gradients."""
        return nullcontext() if self._ddp is None else self._ddp.no_sync()

    @torch.no_grad()
    def own(self) -> list[torch.Tensor]:
        """The gradients of what the loss depends on, to sum in place. Raises `ModelError` when that has changed."""
        present = [weight.value.grad is not None for weight in self.weights]
        if self._present is None:
            self._learn(present)
        elif present != self._present:
            index = next(i for i, there in enumerate(present) if there != self._present[i])
            then, now = ("did not", "does") if present[index] else ("did", "does not")
            raise ModelError(
                f"at the first step the loss {then} depend on {self.weights[index].path}, and now it {now}",
                "use every weight at every step; to leave a layer out, multiply what it gives by 0",
            )
        return self._of_used()

    def _learn(self, present: list[bool]) -> None:
        self._present = present
        count = torch.tensor(present, dtype=torch.int32, device=self.weights[0].value.device)
        ranks = self.link.all_sum(count).tolist()
        self._used = [number > 0 for number in ranks]
        self._everywhere = all(number in (0, self.link.num_replicas) for number in ranks)

    def _of_used(self) -> list[torch.Tensor]:
        parameters = [weight.value for weight, is_used in zip(self.weights, self._used, strict=True) if is_used]
        for parameter in parameters:
            if parameter.grad is None:  # another rank has one
                parameter.grad = torch.zeros_like(parameter)
        return [parameter.grad for parameter in parameters]

    @torch.no_grad()
    def finish(self) -> None:
        """Sum those of a large model after a backward that has not."""
        if self.is_small:
            return
        gradients = self.own()
        if not self.overlaps:
            self._sum(gradients)

    @torch.no_grad()
    def sum_kept(self) -> list[torch.Tensor | None]:
        """The sums of what `kept_apart` left, one per weight; then the ranks hold none."""
        self._sum(self._of_used())
        sums = [weight.value.grad for weight in self.weights]
        for weight in self.weights:
            weight.value.grad = None
        return sums

    def _sum(self, gradients: list[torch.Tensor]) -> None:
        with self.link.meeting():
            for work in [self.link.start_sum(gradient) for gradient in gradients]:
                if work is not None:
                    work.wait()

    def begin_overlap(self) -> None:
        """Let DDP sum from the next step on, where it can; called when this step's gradients are of no more use."""
        if self.is_small or self.overlaps or not self.is_known or not self._everywhere or self.link.group is None:
            return
        used = {id(weight.value) for weight, is_used in zip(self.weights, self._used, strict=True) if is_used}
        # Under all of their names: Keras's layers share parameters, which go by several.
        ignored = [
            f"{path}.{name}" if path else name
            for path, module in self._module.named_modules()
            for name, parameter in module.named_parameters(recurse=False)
            if id(parameter) not in used
        ]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self._module, ignored)
        for weight in self.weights:
            weight.value.grad = None
        with warnings.catch_warnings():  # torch 2.13 renames broadcast_buffers, without a name for what we mean yet
            warnings.simplefilter("ignore", FutureWarning)
            self._ddp = DistributedDataParallel(
                self._module,
                process_group=self.link.group,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                init_sync=False,
            )
        # Not by itself: torch checks the annotations.
        begun = self._last_bucket_ns
        self._ddp.register_comm_hook(self.link.group, lambda group, bucket: _sum_bucket(group, bucket, begun))

    def end_overlap(self) -> None:
        """After a failed step, whose backward DDP may still wait for: let go of the weights, whoever keeps this object."""
        if self._ddp is not None:
            self._ddp._remove_autograd_hooks()
            self._ddp = None


def _sum_bucket(group: dist.ProcessGroup, bucket: Any, begun_ns: list[int]) -> torch.futures.Future[torch.Tensor]:
    """DDP's own would give the mean, for which a scaled loss of half precision would have to be larger than on one device."""
    begun_ns[0] = perf_counter_ns()
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])  # type: ignore[no-any-return]


class State:
    """Variables that each rank adds to, and that must hold the sum over ranks after a step: metric states.

    State that follows a replica's own rows too (moving statistics of local BatchNormalization), as means over the rows.
    """

    def __init__(self, model: Any, link: TorchLink, global_batch_norm: bool, buffers: Buffers) -> None:
        self.model = model
        self.link = link
        self.global_batch_norm = global_batch_norm
        self._buffers = buffers
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
        self._buffers.keep()
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
        averaged = [v.value for v in exact.diverging_variables(self.model, self.global_batch_norm, running.relations)]
        averaged += self._buffers.changes()
        self._summed = [*gradients, *self._tensors, *averaged]
        if not self._summed:
            return
        sizes = [tensor.numel() for tensor in self._summed]
        narrow = all(tensor.is_floating_point() and tensor.dtype.itemsize <= 4 for tensor in self._summed)
        dtype = torch.float32 if narrow else torch.float64  # also for whole numbers
        flat = torch.empty(sum(sizes), dtype=dtype, device=self._summed[0].device)
        torch.cat([tensor.reshape(-1) for tensor in self._summed], out=flat)
        shares = flat[flat.numel() - sum(tensor.numel() for tensor in averaged) :]
        _ = shares.mul_(running.weight) if running.rows else shares.zero_()  # a stand-in row may have made a NaN
        self._parts = flat.split(sizes)
        self._work = self.link.start_sum(flat)

    @torch.no_grad()
    def finish(self) -> None:
        if not self._summed:
            return
        if self._work is not None:
            with self.link.meeting():
                self._work.wait()
        parts = [part.view(tensor.shape) for tensor, part in zip(self._summed, self._parts, strict=True)]
        torch._foreach_copy_(self._summed, parts)
        self._buffers.finish(speaks=self.link.index == 0)
