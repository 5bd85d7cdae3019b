"""Exchanges between replicas in PyTorch processes: sums, stacks and rows of all ranks, with their gradients."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist

from abreast import spans
from abreast.errors import ModelError
from abreast.keras_private.torch import get_device

# The types that gloo and NCCL exchange; rows of another type travel as bytes.
_EXCHANGED = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.int8, torch.uint8, torch.int32, torch.int64),
}


class DifferentPaths(ModelError):
    """The replicas of a step are about to exchange different things. Every rank of the step raises it."""


class TorchLink:
    """`exact.ReplicaLink` over a process group. Without a group (one device) every call is the identity.

    `waiting` is entered around all code that may wait for other ranks. A watchdog blames a rank that is not waiting. `may_part`:
    whether the user's code may decide by values of its rows, or by their number. The ranks then compare what they are about to
    exchange, because other paths would mix up their numbers or wait for ever.
    """

    befores = None
    waiting: Callable[[], AbstractContextManager[Any]] = staticmethod(nullcontext)

    def __init__(self, group: dist.ProcessGroup | None, index: int, num_replicas: int) -> None:
        self.group = group
        self.index = index
        self.num_replicas = num_replicas
        self.may_part = False
        self._meanwhile: Callable[[], None] | None = None

    @contextmanager
    def with_work(self, meanwhile: Callable[[], None] | None) -> Iterator[None]:
        """Inside, the first `work_meanwhile` calls `meanwhile`."""
        self._meanwhile = meanwhile
        try:
            yield
        finally:
            self._meanwhile = None

    def work_meanwhile(self) -> None:
        """Called where this rank has nothing to do until the others have come as far."""
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """`waiting` around an exchange without computation; records a span."""
        with self.waiting(), _span():
            yield

    def agree(self, what: str, tensor: torch.Tensor | None = None, is_of_rows: bool = False) -> None:
        """Raise `DifferentPaths` on every rank, if not all ranks are about to exchange the same."""
        if self.group is None or not self.may_part:
            return
        shape = None if tensor is None else (tensor.dtype, *tensor.shape[1 if is_of_rows else 0 :])
        own = torch.tensor([_EXCHANGES.index(what), zlib.crc32(repr(shape).encode())], device=get_device())
        every = [torch.empty_like(own) for _ in range(self.num_replicas)]
        with self.meeting():
            dist.all_gather(every, own, group=self.group)
        kinds, shapes = zip(*torch.stack(every).tolist(), strict=True)
        if len(set(kinds)) > 1 or len(set(shapes)) > 1:
            names = [_EXCHANGES[kind] for kind in kinds]
            raise DifferentPaths(
                "the replicas of a step took different paths: "
                + ", ".join(f"device {index} came to {name}" for index, name in enumerate(names))
                + ("" if len(set(kinds)) > 1 else ", with other shapes or types"),
                "the step decides by values of its rows (an `if`, a length) or by their number, and each device has rows of its "
                "own: compute both ways and choose by keras.ops.where, give each device as many rows, or train on one device",
            )

    def all_sum(self, tensor: torch.Tensor) -> Any:
        if self.group is None:
            return tensor
        self.agree("a sum", tensor)
        with self.meeting():
            return _AllSum.apply(tensor, self)  # type: ignore[no-untyped-call]

    def all_stack(self, tensor: torch.Tensor) -> Any:
        if self.group is None:
            return tensor[None]
        self.agree("a stack", tensor)
        with self.meeting():
            return _AllStack.apply(tensor, self)  # type: ignore[no-untyped-call]

    def gather_rows(self, tensor: torch.Tensor, counts: Any) -> torch.Tensor:
        if self.group is None:
            return tensor
        rows = [int(count) for count in counts]
        tensor = tensor[: rows[self.index]]  # without a stand-in row
        gathered = self._rows_of_all(tensor.detach(), rows)
        gathered[self.index] = _TimesGradient.apply(tensor, self.num_replicas)  # type: ignore[no-untyped-call]
        return torch.cat(gathered)

    def of_all_rows(self) -> AbstractContextManager[None]:
        return nullcontext()

    def join_rows(self, tensor: torch.Tensor, counts: Any) -> Any:
        if self.group is None:
            return tensor
        rows = [int(count) for count in counts]
        return _JoinRows.apply(tensor[: rows[self.index]], self, rows)  # type: ignore[no-untyped-call]

    def _rows_of_all(self, tensor: torch.Tensor, rows: list[int]) -> list[torch.Tensor]:
        """The rows of each rank, without gradients."""
        self.agree("a gathering of rows", tensor, is_of_rows=True)
        sent = tensor if tensor.dtype in _EXCHANGED else _as_bytes(tensor)
        padded = sent.new_zeros((max(rows), *sent.shape[1:]))
        padded[: rows[self.index]] = sent
        parts = [torch.empty_like(padded) for _ in rows]
        with self.meeting():
            dist.all_gather(parts, padded, group=self.group)
        found = [part[:count] for part, count in zip(parts, rows, strict=True)]
        return found if sent is tensor else [_of_bytes(part, tensor) for part in found]

    def sum_of_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        self.agree("a sum of a gradient", gradient)
        total = gradient.clone(memory_format=torch.contiguous_format)
        with _span():
            dist.all_reduce(total, group=self.group)
        return total

    def start_sum(self, tensor: torch.Tensor) -> Any:
        """Begin a sum in place; `wait()` of the result waits for its end. Returns None without a group."""
        return None if self.group is None else dist.all_reduce(tensor, group=self.group, async_op=True)


END_OF_STEP = "the end of the step"
_EXCHANGES = (END_OF_STEP, "a sum", "a stack", "a gathering of rows", "a sum of a gradient")


def leave_span(start_ns: int) -> None:
    """Record a span of an exchange that began at `start_ns`, if anything in this process listens."""
    if spans.LISTENERS:
        spans.leave(spans.MAIN, "all-reduce", start_ns, perf_counter_ns())


@contextmanager
def _span() -> Iterator[None]:
    start = perf_counter_ns()
    yield
    leave_span(start)


@functools.cache
def keep_out_of_graphs() -> None:
    """Make `torch.compile` break its graphs at exchanges. Not done at import, because the compiler takes seconds to load."""
    for name in ("all_sum", "all_stack", "join_rows", "gather_rows"):
        setattr(TorchLink, name, torch.compiler.disable(getattr(TorchLink, name)))


class _AllSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, link: TorchLink) -> torch.Tensor:
        ctx.link = link
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=link.group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.link.sum_of_gradient(gradient), None


class _TimesGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, factor: int) -> torch.Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.factor, None


class _JoinRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, link: TorchLink, rows: list[int]) -> torch.Tensor:
        ctx.link, ctx.first, ctx.last = link, sum(rows[: link.index]), sum(rows[: link.index + 1])
        return torch.cat(link._rows_of_all(tensor.detach(), rows))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = ctx.link.sum_of_gradient(gradient)
        return total[ctx.first : ctx.last], None, None


class _AllStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, link: TorchLink) -> torch.Tensor:
        ctx.link = link
        stacked = tensor.new_empty((link.num_replicas, *tensor.shape))
        dist.all_gather(list(stacked.unbind(0)), tensor.detach().contiguous(), group=link.group)
        return stacked

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        total = ctx.link.sum_of_gradient(gradient)
        return total[ctx.link.index], None


def _as_bytes(rows: torch.Tensor) -> torch.Tensor:
    """The rows of a tensor as bytes, `(rows, bytes of a row)`."""
    row_bytes = math.prod(rows.shape[1:]) * rows.element_size()
    return rows.contiguous().view(-1).view(torch.uint8).view(len(rows), row_bytes)


def _of_bytes(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The inverse of `_as_bytes`, with the type of `like` and the shape of its rows."""
    return rows.contiguous().view(-1).view(like.dtype).view(len(rows), *like.shape[1:])
