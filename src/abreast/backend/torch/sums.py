"""The sums over PyTorch's ranks in a step: the gradients of the weights, and the state of metrics.

Gradients of a large model are summed by DDP, whose buckets overlap backward. Gradients of a small model are sent with the metrics
in one message: waiting for a second message would cost more than the overlap saves. A message has float32 or float64 numbers;
DDP sums in the type of the gradients, for example bfloat16.
"""

from __future__ import annotations

import functools
import math
import warnings
import zlib
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
from abreast.keras_private.torch import get_device

_SMALL = 2**17  # weights whose gradients fill half a MiB


def is_small(weights: Sequence[Any]) -> bool:
    """Whether the gradients of these weights go with the metrics, in one message."""
    number: int = sum(math.prod(weight.shape) for weight in weights)
    return number <= _SMALL


@functools.cache
def _leave_out_strides() -> None:
    """Ignore a message of DDP, of which users know nothing: a weight with an axis of length 1 has any stride there."""
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")


class Gradients:
    """The gradients of a replica's trainable weights: each rank's own after its backward, until they are summed.

    The first step learns which weights the loss depends on. If these are the same on all ranks, DDP sums the gradients of a
    large model from the second step on. If the rows decide which weights a step uses, the ranks say so in every step.
    """

    def __init__(self, model: Any, link: TorchLink, module: torch.nn.Module) -> None:
        self.link = link
        self.weights = list(model.trainable_weights)
        self.is_small = is_small(self.weights)
        self._module = module
        self._ddp: DistributedDataParallel | None = None
        self._present: list[bool] | None = None  # on this rank
        self._used: list[bool] = []  # on any rank
        self._last_bucket_ns = [0]  # time when DDP began to sum its last bucket

    @property
    def forward(self) -> Any:
        """The module, wrapped in DDP if DDP sums its gradients."""
        return self._ddp or self._module

    @property
    def is_known(self) -> bool:
        """Whether the first step has shown which weights the loss depends on."""
        return self._present is not None

    @property
    def overlaps(self) -> bool:
        """Whether DDP sums the gradients during backward."""
        return self._ddp is not None

    def backward(self, target: torch.Tensor, accumulates: bool) -> None:
        """Compute the gradients, and add them to earlier ones if it `accumulates`.

        Records a span for the sum of the last bucket, which backward cannot hide.
        """
        self._last_bucket_ns[0] = 0
        with self.link.waiting(), self._checking_used() if accumulates else nullcontext():
            target.backward()
        if self._last_bucket_ns[0]:
            leave_span(self._last_bucket_ns[0])

    @contextmanager
    def _checking_used(self) -> Iterator[None]:
        """Compare the weights that backward gives gradients to with those of the first step: earlier gradients hide it."""
        used: set[int] = set()
        values = [weight._value for weight in self.weights]
        hooks = [
            value.register_post_accumulate_grad_hook(lambda value: used.add(id(value)))
            for value in values
            if value.requires_grad
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        self._check([id(value) in used for value in values])

    def kept_apart(self) -> AbstractContextManager[None]:
        """Inside, backward leaves each rank its own gradients."""
        return nullcontext() if self._ddp is None else self._ddp.no_sync()

    def own(self) -> list[torch.Tensor]:
        """The gradients of the weights that the loss depends on, to sum in place. Raises `ModelError` if these changed."""
        present = [weight._value.grad is not None for weight in self.weights]
        running = exact.current()
        assert running is not None
        if self._present is None or running.depends_on_values:
            self._present = present
            ranks = ranks_with(running, present)
            self._used = [number > 0 for number in ranks]
            self._everywhere = all(number in (0, self.link.num_replicas) for number in ranks)
        else:
            self._check(present)
        return self._of_used()

    def _check(self, present: list[bool]) -> None:
        if self._present is not None and present != self._present:
            index = next(i for i, there in enumerate(present) if there != self._present[i])
            then, now = ("did not", "does") if present[index] else ("did", "does not")
            raise ModelError(
                f"at the first step the loss {then} depend on {self.weights[index].path}, and now it {now}",
                "use every weight at every step; to leave a layer out, multiply its output by 0",
            )

    def _of_used(self) -> list[torch.Tensor]:
        gradients = []
        for weight, is_used in zip(self.weights, self._used, strict=True):
            parameter = weight._value
            if not is_used:  # a gradient of a stand-in row
                parameter.grad = None
                continue
            if parameter.grad is None:  # another rank has a gradient for it
                parameter.grad = torch.zeros_like(parameter)
            elif parameter.grad.layout != torch.strided:
                parameter.grad = parameter.grad.to_dense()
            gradients.append(parameter.grad)
        return gradients

    def finish(self, are_sums: bool) -> None:
        """Sum the gradients, unless they are sums already, or DDP summed them during backward."""
        if are_sums:
            return
        gradients = self.own()
        if not self.overlaps:
            with torch.no_grad():
                self._sum(gradients)

    @torch.no_grad()
    def sum_kept(self) -> list[torch.Tensor | None]:
        """The sums of the gradients that `kept_apart` left, one per weight; clears the ranks' own."""
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
        """Let DDP sum from the next step on, if it can. Called when this step's gradients are no longer needed."""
        if self.is_small or self.overlaps or not self.is_known:
            return
        if not self._everywhere or self.link.group is None:
            return
        used = {id(weight.value) for weight, is_used in zip(self.weights, self._used, strict=True) if is_used}
        # All names of each parameter: Keras's layers share parameters, which then have several names.
        ignored = [
            f"{path}.{name}" if path else name
            for path, module in self._module.named_modules()
            for name, parameter in module.named_parameters(recurse=False)
            if id(parameter) not in used
        ]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self._module, ignored)
        for weight in self.weights:
            weight.value.grad = None
        _leave_out_strides()
        with (
            warnings.catch_warnings()
        ):  # torch 2.13 deprecates broadcast_buffers, and has no replacement for this use yet
            warnings.simplefilter("ignore", FutureWarning)
            self._ddp = DistributedDataParallel(
                self._module,
                process_group=self.link.group,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                init_sync=False,
            )
        # A lambda, because torch checks the annotations of a named function.
        begun = self._last_bucket_ns
        self._ddp.register_comm_hook(self.link.group, lambda group, bucket: _sum_bucket(group, bucket, begun))

    def end_overlap(self) -> None:
        """Detach DDP from the weights after a failed step, whose backward DDP may still wait for."""
        if self._ddp is not None:
            self._ddp._remove_autograd_hooks()
            self._ddp = None


def _sum_bucket(group: dist.ProcessGroup, bucket: Any, begun_ns: list[int]) -> torch.futures.Future[torch.Tensor]:
    """The sum of a bucket. DDP's own hook takes the mean, which would need a larger loss scale than one device does."""
    begun_ns[0] = perf_counter_ns()
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])  # type: ignore[no-any-return]


class State:
    """Metric states: each rank adds to them, and after a step they must hold the sum over ranks.

    Also states that follow a replica's own rows (moving statistics of local BatchNormalization), as means over the rows.
    """

    def __init__(self, model: Any, link: TorchLink, buffers: Buffers) -> None:
        self.model = model
        self.link = link
        self._buffers = buffers
        self._metrics: list[Any] = []
        self._tensors: list[torch.Tensor] = []
        self._summed: list[torch.Tensor] = []
        self._message = _Message(torch.empty(0), [])
        self._work: Any = None

    @contextmanager
    def update(self, metrics: list[Any]) -> Iterator[None]:
        """Inside, the ranks add to the metrics; at the end, the additions are summed over the ranks."""
        self.begin(metrics)
        yield
        self.start()
        self.finish()

    def begin(self, metrics: list[Any]) -> None:
        """Clear the metrics on ranks 1 and up, so that each rank collects its own additions; rank 0 keeps the earlier ones.

        `metrics`: the result of `leaf_metrics`.
        """
        self._buffers.keep()
        self._metrics, self._tensors = metrics, _tensors_of(metrics)
        if self.link.index > 0 and self._tensors:
            with torch.no_grad():
                torch._foreach_zero_(self._tensors)

    @torch.no_grad()
    def start(self, gradients: Sequence[torch.Tensor] = ()) -> None:
        """Begin the sum, with `gradients` in the same message; `finish` waits for it."""
        running = exact.current()
        assert running is not None
        self._tensors += _tensors_of(running.new_metrics)
        averaged = [v._value for v in exact.diverging_variables([running], [*self._metrics, *running.new_metrics])]
        averaged += self._buffers.changes()
        self._summed = [*gradients, *self._tensors, *averaged]
        if not self._summed:
            return
        if not self._message.fits(self._summed):
            self._message = _Message.of(self._summed)
        flat = self._message.flat
        torch._foreach_copy_(self._message.parts, self._summed)
        if averaged:
            shares = flat[flat.numel() - sum(tensor.numel() for tensor in averaged) :]
            if running.rows:
                shares.mul_(running.weight)
            else:
                shares.zero_()  # a stand-in row may have produced a NaN
        self._work = self.link.start_sum(flat)

    @torch.no_grad()
    def finish(self) -> None:
        if not self._summed:
            return
        if self._work is not None:
            with torch.enable_grad():
                self.link.work_meanwhile()
            with self.link.meeting():
                self._work.wait()
        torch._foreach_copy_(self._summed, self._message.parts)
        self._buffers.finish(speaks=self.link.index == 0)


def ranks_with(running: exact.Replica, present: Sequence[bool]) -> list[int]:
    """For each gradient, the number of ranks that have it for their rows: a stand-in row may choose other weights."""
    own = [is_there and (running.rows > 0 or not running.depends_on_values) for is_there in present]
    numbers = torch.tensor(own, dtype=torch.int64, device=get_device())
    return list(map(int, running.link.all_sum(numbers).tolist()))


def check_same_weights(running: exact.Replica, weights: Sequence[Any]) -> None:
    """Raise `ModelError` if the ranks give an optimizer gradients of other `weights`."""
    places = {id(variable): place for place, variable in enumerate(running.model.variables)}
    own = zlib.crc32(str([places.get(id(weight), weight.path) for weight in weights]).encode())
    total = running.link.all_sum(torch.tensor(own, dtype=torch.int64, device=get_device()))
    if int(total) != own * running.link.num_replicas:
        raise exact.other_weights()


def dense_ones(gradients: Sequence[Any]) -> list[Any]:
    """Gradients with all their entries: that of an embedding with `sparse=True` has only those of its words."""
    return [each if each is None or each.layout == torch.strided else each.to_dense() for each in gradients]


def sum_weighted(running: exact.Replica, gradients: list[Any], weights: Sequence[Any], are_parts: bool) -> list[Any]:
    """Turn gradients of means over this rank's rows, or its parts, into those of the mean over all rows, with one sum."""
    gradients = dense_ones(gradients)
    if running.depends_on_values:
        ranks = ranks_with(running, [each is not None for each in gradients])
        gradients = [
            None if not number else torch.zeros_like(getattr(weight, "value", weight)) if each is None else each
            for each, weight, number in zip(gradients, weights, ranks, strict=True)
        ]
    present = [gradient for gradient in gradients if gradient is not None]
    if not present:
        return gradients
    weight = float(running.rows > 0) if are_parts else running.weight
    flat = torch.cat(
        [(gradient * weight if weight else torch.zeros_like(gradient)).reshape(-1) for gradient in present]
    )
    parts = iter(running.link.all_sum(flat).split([gradient.numel() for gradient in present]))
    return [None if gradient is None else next(parts).reshape(gradient.shape) for gradient in gradients]


def note_sum(running: exact.Replica, weight: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Remember the `.grad` of a weight as that of all rows, until it changes."""
    running.sums[id(weight)] = total, total._version
    return total


def has_sum(running: exact.Replica, weight: torch.Tensor) -> bool:
    """Whether the `.grad` of a weight is still the noted one."""
    total, version = running.sums.get(id(weight), (None, 0))
    return weight.grad is not None and weight.grad is total and weight.grad._version == version


class _Message:
    """Memory for one sum of several tensors: `parts` are views of `flat`, one per tensor. Steps of one kind use it again."""

    def __init__(self, flat: torch.Tensor, parts: list[torch.Tensor]) -> None:
        self.flat, self.parts = flat, parts

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor]) -> _Message:
        sizes = [tensor.numel() for tensor in tensors]
        with torch.inference_mode(False):  # else only steps inside the user's `inference_mode` could use it
            flat = torch.empty(sum(sizes), dtype=_type_of_sum(tensors), device=tensors[0].device)
            parts = [part.view(tensor.shape) for part, tensor in zip(flat.split(sizes), tensors, strict=True)]
        return cls(flat, parts)

    def fits(self, tensors: Sequence[torch.Tensor]) -> bool:
        return (
            len(tensors) == len(self.parts)
            and all(part.shape == tensor.shape for part, tensor in zip(self.parts, tensors, strict=True))
            and self.flat.dtype == _type_of_sum(tensors)
            and self.flat.device == tensors[0].device
        )


def _type_of_sum(tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """float64 if that is needed to sum the tensors, also whole numbers, without loss."""
    is_narrow = all(tensor.is_floating_point() and tensor.dtype.itemsize <= 4 for tensor in tensors)
    return torch.float32 if is_narrow else torch.float64


def _tensors_of(metrics: Sequence[Any]) -> list[torch.Tensor]:
    """The states of the metrics whose parts add up."""
    return [variable._value for metric in metrics if exact.adds_up(metric) for variable in metric.variables]
