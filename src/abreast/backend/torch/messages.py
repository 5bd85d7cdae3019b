"""The messages between rank 0 and its workers, and the numbering of variables that both sides share."""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import torch
import torch.distributed as dist

from abreast.backend.torch.python_same import comparable

READY = 1  # worker: imports are done
MODEL = 2  # a pickled `(key, size, model, global_batch_norm, seed)`
FORGET = 3  # a pickled key
SYNC = 4  # a pickled `(key, indices of variables, indices of buffers)`: rank 0 broadcasts these
TRAIN, TEST, PREDICT = 5, 6, 7  # key, counts, batch descriptor
COLLECT = 8  # a pickled key: move gradients kept between accumulation steps to Keras's accumulators
GROUP = 9  # a pickled size: the first `size` ranks become a process group
STAGE = 10  # a batch descriptor: begin to copy that shard to the device
DISCARD = 11  # a batch descriptor: no step will take that shard
SUM = 12  # a pickled `(size, size_bytes)`: the first `size` ranks time their sums
STATE = 13  # a pickled `(key, changes)`: changes in rank 0's Python state
RELATIONS = 14  # a pickled `(key, relations)`: the layers that work on the rows of all ranks
SETTINGS = 15  # the pickled result of `settings.read` on rank 0
SEED = 16  # the pickled number that the user seeded with
GENERATORS = 17  # a pickled `seeds.Generators` to continue with; if it is None, the worker answers with its own
CLASSES = 18  # the pickled result of `imported_classes.attributes`; the worker answers with that of `take_over`
RESULTS = 19  # a pickled `(key, kind of step, rows)`; the worker answers with its `exact.ShortResults`

KINDS = {"train": TRAIN, "test": TEST, "predict": PREDICT}
_HEAD = struct.Struct("<q??i")
_OF_KERAS = ("_regularizer", "_constraint")
_SETTINGS = operator.attrgetter(*_OF_KERAS)


def pack_step(key: int, training: bool, compares: bool, counts: Sequence[int], descriptor: bytes) -> bytes:
    return _HEAD.pack(key, training, compares, len(counts)) + struct.pack(f"<{len(counts)}q", *counts) + descriptor


def unpack_step(payload: bytes) -> tuple[int, bool, bool, tuple[int, ...], bytes]:
    """`(model key, training mode of its torch modules, ReplicaStep.compares, rows of each rank, batch descriptor)`."""
    key, training, compares, size = _HEAD.unpack_from(payload)
    end = _HEAD.size + 8 * size
    return key, training, compares, struct.unpack_from(f"<{size}q", payload, _HEAD.size), payload[end:]


def numbered_variables(model: Any) -> list[Any]:
    """Every variable of a model, its optimizer and its metrics, in the same order in each process."""
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else []), *model.metrics_variables]
    return list({id(variable): variable for variable in variables if variable._value is not None}.values())


def identity(model: Any, *options: Any) -> Any:
    """A fingerprint of layers, variables, compile settings and `options`; if it changes, all ranks get the model again."""
    optimizer = getattr(model, "optimizer", None)
    parts = [*model._flatten_layers(), optimizer, getattr(optimizer, "inner_optimizer", None)]
    variables, usual = numbered_variables(model), len(_names_of_variables())
    return (
        options,
        model.jit_compile,
        id(getattr(model, "_compile_config", None)),
        tuple((id(v._value), v.trainable, v._value.requires_grad) for v in variables),
        [*map(_SETTINGS, variables)],
        [_comparable(_own(v)) for v in variables if len(vars(v)) != usual],
        [_comparable(vars(v._value).items()) for v in variables if vars(v._value)],
        _without_decay(optimizer),
        tuple((id(part), type(part), *_dtypes(part)) for part in parts),
    )


def set_by_scripts(variable: Any) -> list[tuple[str, Any]]:
    """The attributes of a variable that a script may set at any time: regularizer, constraint, and the script's own."""
    return [*zip(_OF_KERAS, _SETTINGS(variable), strict=True), *_own(variable)]


def _comparable(attributes: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, comparable(value)) for name, value in attributes]


def _own(variable: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(variable).items() if name not in _names_of_variables()]


@functools.cache
def _names_of_variables() -> frozenset[str]:
    return frozenset(vars(keras.Variable(0.0, name="bare")))


def _without_decay(optimizer: Any) -> list[Any]:
    """The weights excluded by `exclude_from_weight_decay`, in an optimizer and the optimizer inside it."""
    both = [optimizer, getattr(optimizer, "inner_optimizer", None)]
    return [frozenset(getattr(each, "_exclude_from_weight_decay", ())) for each in both]


def _dtypes(part: Any) -> tuple[Any, ...]:
    """The dtypes of a layer's or optimizer's policy. The policy object itself may be replaced or changed between steps."""
    return getattr(part, "compute_dtype", None), getattr(part, "variable_dtype", None)


def about_connection(error: BaseException) -> bool:
    """Whether an error reports that the connection to another rank is gone, without the cause."""
    words = ("gloo", "nccl", "peer", "connection", "socket", "timed out", "broken pipe", "aborted")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)


def broadcast(tensors: Sequence[torch.Tensor], group: dist.ProcessGroup | None, source: int = 0) -> None:
    """Copy the tensors of rank `source` to every rank of the group, in one message per type."""
    by_type: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.dtype, []).append(tensor)
    with torch.no_grad():
        for dtype, members in by_type.items():
            flat = torch.cat([member.reshape(-1) for member in members])
            flat = flat.to(torch.uint8) if dtype is torch.bool else flat
            dist.broadcast(flat, src=source, group=group)
            parts = flat.to(dtype).split([member.numel() for member in members])
            for member, part in zip(members, parts, strict=True):
                member.copy_(part.reshape(member.shape))
