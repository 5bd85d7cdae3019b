"""One replica during one step: its rows, its link to the other replicas, and the replica that runs in this thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import keras
from keras import ops, tree

from abreast.errors import ModelError
from abreast.exact.members import members
from abreast.keras_private import attached
from abreast.keras_private.data_adapters import unpack_x_y_sample_weight

if TYPE_CHECKING:
    from abreast.exact.relations import Relations


class ReplicaLink(Protocol):
    """The exchanges between a replica and the others. Tensors are the backend's."""

    @property
    def index(self) -> int: ...

    @property
    def num_replicas(self) -> int: ...

    @property
    def befores(self) -> dict[Any, Any] | None:
        """By call of the user's code, Python objects as they were before; None unless replicas run the same Python in turn."""
        ...

    def all_sum(self, tensor: Any) -> Any:
        """The sum over all replicas; its gradient is summed likewise."""
        ...

    def all_stack(self, tensor: Any) -> Any:
        """The tensors of all replicas, `(num_replicas, ...)`; differentiable."""
        ...

    def join_rows(self, tensor: Any, counts: Any) -> Any:
        """The valid rows of all replicas in order; their gradient is summed over the replicas."""
        ...

    def gather_rows(self, tensor: Any, counts: Any) -> Any:
        """The valid rows of all replicas in order; only this replica's own carry a gradient, multiplied by `num_replicas`.

        Every replica computes the same loss of these rows and divides it by `num_replicas`.
        """
        ...

    def of_all_rows(self) -> AbstractContextManager[Any]:
        """Inside, this replica computes on the rows of all replicas."""
        ...


class Added(NamedTuple):
    """A loss that a layer added. `of_all_rows`: whether the layer's call had the rows of all replicas, or only this one's."""

    loss: Any
    of_all_rows: bool


class Left(NamedTuple):
    """An attribute of a layer, in its `vars`, in which calls leave a tensor (see `Relations.left_in_calls`)."""

    space: dict[str, Any]
    name: str
    kind: str
    before: Any  # the value that an earlier step has left

    @property
    def value(self) -> Any:
        return self.space.get(self.name)


@dataclass
class Replica:
    """One replica during one step.

    `counts`: valid rows of every replica, `(num_replicas,)`; `rows`: this one's; `total_rows`: their sum (scalars). A replica
    without rows computes on a stand-in row with weight 0. `own_step`: the user's own `train_step` runs, whose losses
    stay means over this replica's rows. `kind`: the kind of the step. `relations`: the findings of the row check. `added_losses`:
    by the identity of the layer. `contributes`: whether Keras computes the loss; each replica then takes its part of it.
    """

    model: Any
    link: ReplicaLink
    rows: Any
    total_rows: Any
    counts: Any
    global_batch_norm: bool = True
    own_step: bool = False
    kind: str = "train"
    relations: Relations | None = None
    added_losses: dict[int, list[Added]] = field(default_factory=dict)
    contributes: bool = False
    assigned: dict[int, Any] = field(
        default_factory=dict
    )  # by identity: variables that the user's own step has set itself
    # Calls so far: of metrics that get numbers for a whole batch, and of members that work on the rows of all replicas.
    metric_calls: Counter[int] = field(default_factory=Counter)
    calls: Counter[int] = field(default_factory=Counter)
    python_calls: Counter[int] = field(default_factory=Counter)  # of losses and metrics of the user's, by identity
    # By identity: optimizers whose gradients are this replica's parts already (`overflow.py`).
    scaled_by_share: dict[int, Any] = field(default_factory=dict)
    applies: bool = False  # whether an optimizer has got gradients of the user's own step
    sums: dict[int, Any] = field(default_factory=dict)  # by identity of the weight: its gradient of all rows (PyTorch)
    left: list[Left] = field(default_factory=list)
    new_metrics: list[Any] = field(default_factory=list)  # metrics that this step has made
    unique: list[Any] = field(
        default_factory=list
    )  # where operations run at once: arrays with each value of another once

    def __post_init__(self) -> None:
        if self.relations is not None and (places := self.relations.left_in_calls):
            everyone = members(self.model)
            spaces = ((vars(everyone[number]), name, kind) for (number, name), kind in places.items())
            self.left = [Left(space, name, kind, space.get(name)) for space, name, kind in spaces]

    @property
    def weight(self) -> Any:
        """This replica's share of the global batch."""
        return as_float(self.rows) / as_float(self.total_rows)

    def weight_as(self, dtype: Any) -> Any:
        """`weight` as a tensor. A `cast` would not do: TensorFlow's rounds a Python number to float32 first."""
        if isinstance(self.rows, int) and isinstance(self.total_rows, int):
            return ops.convert_to_tensor(self.weight, dtype)
        wide = "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"
        return ops.cast(ops.cast(self.rows, wide) / ops.cast(self.total_rows, wide), dtype)

    def share_of(self, kind: str | None, dtype: Any) -> Any:
        """The factor with which a value for this replica's rows counts in a sum over replicas, a tensor."""
        return ops.cast(self.rows > 0, dtype) if kind == "sum" else self.weight_as(dtype)

    @property
    def may_stand_in(self) -> bool:
        """Whether this replica may have a stand-in row only. In a graph, the number of rows may be a tensor."""
        return self.link.num_replicas > 1 and not (isinstance(self.rows, int) and self.rows > 0)

    @property
    def depends_on_values(self) -> bool:
        """Whether the step decides by values of rows, for example which weights it uses."""
        return self.relations is not None and self.relations.depends_on_values

    @property
    def logs(self) -> Mapping[str, str]:
        """The kinds of the values that the step returns: see `Relations.logs`."""
        return {} if self.relations is None else self.relations.logs.get(self.kind, {})

    def share_of_log(self, name: str) -> Any:
        """The factor with which this replica's value counts in a sum over replicas: of a mean over rows, or of a sum."""
        return float(self.rows > 0) if self.logs.get(name) == "sum" else self.weight


_thread = threading.local()


def current() -> Replica | None:
    """The replica whose step this thread runs; None outside steps, and while plain Keras runs on the rows of all replicas."""
    replica: Replica | None = getattr(_thread, "replica", None)
    return replica


def is_inside() -> bool:
    """Whether this thread is in a step of ours, as a replica or with plain Keras."""
    return getattr(_thread, "inside", 0) > 0


def is_duplicate_of_replica_0() -> bool:
    """True on replicas 1 and up while every replica processes the gathered rows; only replica 0's update counts."""
    whose: Replica | None = getattr(_thread, "whose", None)
    return current() is None and whose is not None and whose.link.index > 0


def working_for() -> Replica | None:
    """The replica whose step this thread runs, also while plain Keras runs on the rows of all replicas; None outside steps."""
    whose: Replica | None = getattr(_thread, "whose", None)
    return current() or whose


def is_in_gathered_call() -> bool:
    """Whether a member's call runs on the rows of all replicas: each replica goes on with its own rows of the result."""
    return current() is None and getattr(_thread, "in_call", False)


@contextmanager
def all_rows(running: Replica, in_call: bool = False) -> Iterator[None]:
    """Inside, plain Keras runs on the rows of all replicas. Every replica does this.

    `in_call`: in the call of a member, whose results each replica cuts; else in a loss or a metric, which each computes whole.
    """
    before = getattr(_thread, "whose", None), getattr(_thread, "in_call", False)
    _thread.whose, _thread.in_call = running, in_call
    try:
        with replica(None), running.link.of_all_rows():
            yield
    finally:
        _thread.whose, _thread.in_call = before


@contextmanager
def contributing(running: Replica) -> Iterator[None]:
    """Inside, losses are this replica's parts of the batch's loss."""
    running.contributes = True
    try:
        yield
    finally:
        running.contributes = False


@contextmanager
def replica(running: Replica | None) -> Iterator[None]:
    """Inside, this thread runs the step of `running`; with None, it runs plain Keras within a step."""
    before = current()
    _thread.replica = running
    _thread.inside = getattr(_thread, "inside", 0) + 1
    try:
        yield
    finally:
        _thread.replica = before
        _thread.inside -= 1


def valid_rows(data: Any, rows: Any) -> Any:
    """The first `rows` rows of every tensor and its mask; drops the stand-in row of a replica without rows."""

    def head(leaf: Any) -> Any:
        if leaf is None or len(leaf.shape) == 0:  # one value for the batch
            return leaf
        return attached.of_rows(leaf, lambda tensor: tensor[:rows])

    return tree.map_structure(head, data)


def check_outputs(outputs: Any, data: Any) -> None:
    """Raise `ModelError` for an output of `predict_step` whose rows are not those of the batch: replicas' rows are joined."""
    rows = first_leaf(data).shape[0]
    for leaf in tree.flatten(outputs):
        if getattr(getattr(leaf, "shape", None), "rank", 0) is None:
            raise ModelError(
                "predict_step returns a tensor whose number of axes is not known before it runs: it may have no axis of rows",
                "name the axes that it drops, as in `squeeze(x, axis=-1)`, or predict on one device",
            )
        found = leaf.shape[0] if len(getattr(leaf, "shape", ())) else None
        if rows is not None and found is not None and found != rows:
            raise other_rows()


def first_leaf(data: Any) -> Any:
    """The first tensor of a batch; inputs may be None."""
    return next(leaf for leaf in tree.flatten(data) if leaf is not None)


def other_rows() -> ModelError:
    """The error for outputs that cannot be joined."""
    return ModelError(
        "the rows of output of predict_step are not those of its batch: how the outputs of several replicas belong together is "
        "not known",
        "give each row of the batch one row of output (further rows as a further axis), or predict on one device",
    )


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """`(x, y, sample_weight)` of a batch."""
    unpacked: tuple[Any, Any, Any] = unpack_x_y_sample_weight(data)
    return unpacked


def gather(running: Replica, data: Any, kinds: Mapping[int, str] = MappingProxyType({}), of_user: bool = False) -> Any:
    """The data of all replicas: rows in order; a value for a whole batch as mean over rows, or as sum if `kinds` has "sum".

    `of_user`: the data is what the user's code made of its rows, and may have fewer or more entries.
    """

    def rows_of_all(leaf: Any) -> Any:
        if not hasattr(leaf, "shape"):
            return leaf
        if len(leaf.shape) == 0 or kinds.get(id(leaf), "rows") != "rows":  # one value for the batch
            is_float = keras.backend.is_float_dtype(leaf.dtype)
            number = leaf if is_float else ops.cast(leaf, "float32")
            total = shared(running, number * running.share_of(kinds.get(id(leaf)), number.dtype))
            return total if is_float else ops.cast(ops.round(total), leaf.dtype)
        counts = _lengths(running, leaf) if of_user else running.counts
        return attached.of_rows(leaf, lambda tensor: running.link.gather_rows(tensor, counts))

    return tree.map_structure(rows_of_all, data)


def _lengths(running: Replica, leaf: Any) -> Any:
    """The number of entries that each replica has of a leaf; none for a stand-in row."""
    own = ops.cast(ops.shape(leaf)[0], "int32") * ops.cast(running.rows > 0, "int32")
    return running.link.all_stack(own)


def shared(running: Replica, share: Any) -> Any:
    """The sum of the replicas' shares; only this replica's own carries a gradient, as in `ReplicaLink.gather_rows`."""
    own = share * running.link.num_replicas
    return own + ops.stop_gradient(running.link.all_sum(ops.stop_gradient(share)) - own)


def with_gradient_times(tensor: Any, factor: Any) -> Any:
    """The same values with a gradient multiplied by `factor`. Infinite values become NaN."""
    constant = ops.stop_gradient(tensor)
    return constant + (tensor - constant) * ops.cast(factor, tensor.dtype)


def is_number(value: Any) -> bool:
    """Whether a value is one number for a whole batch, in Python or in a tensor."""
    return isinstance(value, (int, float)) or (hasattr(value, "shape") and len(value.shape) == 0)


def number_as(value: Any, dtype: Any) -> Any:
    """A number of rows for arithmetic with tensors of a type. In a narrow type, casting rounds it, as in plain Keras."""
    is_ready = isinstance(value, (int, float)) and keras.backend.standardize_dtype(dtype) in ("float32", "float64")
    return value if is_ready else ops.cast(value, dtype)


def as_float(value: Any) -> Any:
    """A number of rows as a float, or as a tensor of Keras's float type."""
    return value if isinstance(value, (int, float)) else ops.cast(value, keras.config.floatx())
