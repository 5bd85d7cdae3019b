"""Summaries of tensors' contents: they show writes that torch does not count, through `.data` or NumPy's view of the memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

_MOST = 1 << 16  # largest number of elements of a tensor that is kept whole
_WIDTH = 1024  # elements of a larger tensor that are summed to one number


class Contents:
    """The contents of some tensors now. A change of a large tensor shows above 2e-6 of its values; of whole numbers, always."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._parts: list[tuple[list[int], torch.Tensor]] = []
        self._sizes = [tensor.numel() for tensor in tensors]
        small: dict[tuple[torch.dtype, torch.device], list[int]] = {}
        with torch.no_grad():
            for index, tensor in enumerate(tensors):
                if self._sizes[index] > _MOST:
                    self._parts.append(([index], _sketch(tensor)))
                else:
                    small.setdefault((tensor.dtype, tensor.device), []).append(index)
            for indices in small.values():
                self._parts.append((indices, torch.cat([tensors[index].reshape(-1) for index in indices])))

    def differing(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """Indices of the tensors whose contents have changed; all indices if types or sizes have changed."""
        now = Contents(tensors)
        if now._sizes != self._sizes or [part[0] for part in now._parts] != [part[0] for part in self._parts]:
            return [*range(len(tensors))]
        pairs = [(*seen, new) for seen, (_, new) in zip(self._parts, now._parts, strict=True)]
        return [index for indices, seen, new in pairs if not _same(seen, new) for index in self._of(indices, seen, new)]

    def _of(self, indices: list[int], seen: torch.Tensor, new: torch.Tensor) -> list[int]:
        if len(indices) == 1:
            return indices
        sizes = [self._sizes[index] for index in indices]
        pairs = zip(indices, seen.split(sizes), new.split(sizes), strict=True)
        return [index for index, one, other in pairs if not _same(one, other)]


def digest(tensor: torch.Tensor) -> bytes:
    """The contents of one tensor as bytes, to compare with a later digest."""
    with torch.no_grad():
        # A copy: what `numpy` has seen cannot be resized.
        kept = tensor.detach().reshape(-1).clone() if tensor.numel() <= _MOST else _sketch(tensor)
    return kept.cpu().contiguous().view(torch.uint8).numpy().tobytes()


def _sketch(tensor: torch.Tensor) -> torch.Tensor:
    """A weighted sum of every `_WIDTH` elements, which also shows a changed order or sign, and the remaining elements."""
    flat = tensor.detach().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    end = flat.numel() // _WIDTH * _WIDTH
    rows, rest = flat[:end].view(-1, _WIDTH), flat[end:]
    if not flat.is_floating_point():
        weights = _odd_numbers(rows.device)
        return torch.cat([*((part.long() * weights).sum(1) for part in rows.split(_WIDTH)), rest.long()])
    if flat.dtype not in (torch.float32, torch.float64):
        rows, rest = rows.float(), rest.float()
    sums = rows @ _weights(rows.dtype, rows.device)
    return torch.cat([sums, rest, rows[~sums.isfinite()].reshape(-1)])  # an infinite sum hides its elements


@functools.cache
def _weights(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (0.5 + torch.rand(_WIDTH, generator=generator)).to(device, dtype)


@functools.cache
def _odd_numbers(device: torch.device) -> torch.Tensor:
    """Weights for integers. They are odd, so that any change of one integer changes the sum, although it wraps around."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(1 << 62, (_WIDTH,), generator=generator) * 2 + 1).to(device)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or torch.equal(one.view(torch.uint8), other.view(torch.uint8))  # NaN
