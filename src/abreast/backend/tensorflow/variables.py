"""A model's variables on several devices of one TensorFlow process.

A Keras variable keeps its plain TensorFlow variable, which is the first replica's; the other replicas have copies. Outside steps
only the plain variable counts, and the user may change it. The next step begins by copying its value to the copies (`work`).
After the last step, the replicas' accumulated sums are added up in the plain variable (`rest`). While a step is traced, a Keras
variable holds the variable of the running replica, so layers, metrics and optimizers work as on one device. Not here: steps.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from abreast import exact
from abreast.backend.instruments import Sums
from abreast.backend.tensorflow.functions import OWNER, in_a_step
from abreast.backend.tensorflow.processes import Reach
from abreast.backend.tensorflow.reduce import add_in_order
from abreast.keras_private.backend import Variable
from abreast.keras_private.optimizers import identify_variables
from abreast.replacing import replaced

# Held while variables of a model are not at rest, for example during a trace: other threads may train and predict meanwhile.
AT_WORK = threading.RLock()


# Functions that get a Keras variable after an assignment to it, or to its plain variable, outside steps.
ON_ASSIGNMENT: list[Callable[[Any], None]] = []
# Functions that get a plain variable before a run of the row check assigns to it without Keras.
ON_FOREIGN: list[Callable[[Any], None]] = []

_ASSIGNING = (
    *("assign", "assign_add", "assign_sub", "_strided_slice_assign", "scatter_sub", "scatter_add", "scatter_max"),
    *("scatter_min", "scatter_mul", "scatter_div", "scatter_update", "batch_scatter_update", "scatter_nd_sub"),
    *("scatter_nd_add", "scatter_nd_update", "scatter_nd_max", "scatter_nd_min"),
)
# Keras's name for the state of a generator; `exact` makes the replicas' seeds differ.
_OF_SEEDS = "seed_generator_state"
_thread = threading.local()
_entered: Variables | None = None  # those of the replica that is at work; a trace holds `AT_WORK`


@dataclass(eq=False)
class _Copies:
    """The plain variables of one Keras variable, one per replica. Models that share a layer share them."""

    values: tuple[Any, ...]
    lock: Any = field(default_factory=threading.RLock)


_shared: WeakValueDictionary[tuple[int, tuple[str, ...]], _Copies] = WeakValueDictionary()


@functools.cache
def install() -> None:
    """Notice assignments while a model trains, for example by a data source. Runs once."""
    plain = Variable._direct_assign

    @functools.wraps(plain)
    def assign(self: Any, value: Any) -> None:
        if _entered is not None and exact.is_inside() and (self.name != _OF_SEEDS or exact.is_in_optimizer()):
            _entered.take_in(self)
        with _by_keras():
            plain(self, value)
        _assigned(self, self._value)

    Variable._direct_assign = assign
    for name in _ASSIGNING:
        setattr(ResourceVariable, name, _noticed(getattr(ResourceVariable, name)))


def _noticed(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An assigning method of TensorFlow's variables, replaced by one that notices the assignment."""

    @functools.wraps(plain)
    def assign(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(_thread, "by_keras", False):
            _meet_untracked(self)
        result = plain(self, *args, **kwargs)
        if (owner := getattr(self, OWNER, None)) is not None and (variables := owner()) is not None:
            _assigned(variables.of_plain(self), self)
        return result

    return assign


@contextmanager
def _by_keras() -> Iterator[None]:
    """Inside, this thread assigns to a plain variable through its Keras variable."""
    _thread.by_keras = True
    try:
        yield
    finally:
        _thread.by_keras = False


def _meet_untracked(plain: Any) -> None:
    """Report an assignment to a variable without a Keras variable: to the row check, or as a `ModelError` in a step."""
    if hasattr(plain, OWNER):
        return
    if exact.running() is not None:
        for listener in ON_FOREIGN:
            listener(plain)
    elif _entered is not None and exact.is_inside() and _entered.is_shared():
        raise exact.untracked(f"a tf.Variable ({plain.name})")


def _assigned(variable: Any, plain: Any) -> None:
    if not tf.executing_eagerly() or in_a_step():
        return
    for listener in ON_ASSIGNMENT:
        listener(variable)
    owner = getattr(plain, OWNER, None)
    if owner is not None and (variables := owner()) is not None:
        variables.is_spread = False


class Variables:
    """Every variable that the steps of a model read or write."""

    def __init__(self, model: Any, devices: tuple[str, ...], reach: Reach) -> None:
        self.devices = devices
        self._reach = reach
        self._model = weakref.ref(model)
        self._index = 0  # the replica at work
        self.metric_sums: list[Any] = []  # variables in which each replica accumulates its own sum
        self.gradient_sums: list[Any] = []  # likewise, between two updates of an optimizer that accumulates gradients
        self.is_spread = False  # whether the copies have the values of the plain variables
        self.is_copying = False  # whether variables are being made for the other replicas
        self._copies: dict[int, tuple[Any, _Copies]] = {}
        self._of_plain: dict[int, Any] = {}
        self._locks: list[Any] = []
        self._has_added = False
        self.is_partial = False  # whether `gradient_sums` hold this process's part only
        self._spread: Callable[[], None] | None = None
        self._gather: Callable[[], None] | None = None
        self._complete: Callable[[], None] | None = None
        self._place(model)

    def is_current(self, model: Any) -> bool:
        """Whether no variables of the model were created or replaced since this object was made."""
        return all(
            (known := self._copies.get(id(variable))) is not None and known[1].values[0] is variable._value
            for variable in _variables(model)
            if variable._value is not None
        )

    def enter(self, index: int | None) -> None:
        """Set every Keras variable to the variable of replica `index`; with None, to the plain variable."""
        global _entered
        _entered = None if index is None else self
        self._index = index or 0
        for variable, copies in self._copies.values():
            variable._value = copies.values[index or 0]

    def has(self, variable: Any) -> bool:
        """Whether a Keras variable is placed."""
        return id(variable) in self._copies

    def is_shared(self) -> bool:
        """Whether several replicas would change a variable without copies."""
        return self._reach.total > 1

    def take_in(self, variable: Any) -> None:
        """Before the running replica assigns to a variable that the model does not hold: give each replica a copy.

        The first replica's value is kept, which is that of one device if the variable does not follow the rows. All replicas have
        read equal values so far, because none has assigned to it.
        """
        if self.has(variable) or not self.is_shared() or exact.adds_up_in_place(self._model(), variable):
            return
        exact.announce_untracked(self._model(), variable)
        if len(self.devices) > 1:
            with tf.init_scope():
                self._add([variable], [], [], moves=False)
            variable._value = self.copies(variable)[self._index]

    def add_optimizer(self, optimizer: Any) -> None:
        """Place the variables of an optimizer that has just been built."""
        self._add(optimizer.variables, [], accumulators(optimizer))

    def all(self) -> list[Any]:
        """Every Keras variable, in the same order in every process."""
        return [variable for variable, _ in self._copies.values()]

    def of_plain(self, plain: Any) -> Any:
        """The Keras variable that holds a plain variable."""
        return self._of_plain[id(plain)]

    def is_of_saved_model(self, plain: Any) -> bool:
        """Whether a plain variable belongs to a `TFSMLayer`, which only trains if it is frozen: `exact` refuses others."""
        model: Any = self._model()
        layers = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.TFSMLayer)]
        return id(self.of_plain(plain)) in {id(variable) for layer in layers for variable in layer.variables}

    def copies(self, variable: Any) -> tuple[Any, ...]:
        """The plain variables of one Keras variable, one per replica."""
        return self._copies[id(variable)][1].values

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A lock for steps, copies and sums of values: one thread at a time, over all models that share variables."""
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            yield

    def work(self, adds_up: bool) -> None:
        """Before a step: copy the values of the plain variables to the copies."""
        self._has_added |= adds_up
        if not self.is_spread:
            if len(self.devices) > 1:
                self._spread = self._spread or self._function(self._give)
                self._spread()
            if self._reach.first and not self.is_partial:
                for variable in self.gradient_sums:  # sums that all processes have count in the first process only
                    first = self.copies(variable)[0]
                    # Not `assign`, which would be noticed as an assignment of the user.
                    tf.raw_ops.AssignVariableOp(resource=first.handle, value=tf.zeros_like(first))
            self.is_spread = True
        self.is_partial = bool(self.gradient_sums) and self._reach.processes is not None

    def rest(self) -> None:
        """Before the user's code runs: add up, in the plain variables, the sums of all replicas."""
        with self.turn():
            self.is_spread = False
            if self._has_added and (self.metric_sums or self.gradient_sums) and len(self.devices) > 1:
                self._gather = self._gather or self._function(self._put_together)
                self._gather()
            self._has_added = False

    def read_sums(self) -> Sums:
        """The variables whose parts `rest` would add up, with one part per replica; none in a job of several processes."""
        if not self._has_added or self._reach.processes is not None or len(self.devices) == 1:
            return []
        with self.turn():
            sums = [*self.metric_sums, *self.gradient_sums]
            return [(variable, np.stack([np.array(copy) for copy in self.copies(variable)])) for variable in sums]

    def write_sums(self, sums: Sums) -> None:
        """Give each replica its part again, after `rest`; parts of another number of replicas stay added up."""
        with self.turn():
            for variable, parts in sums:
                copies = self.copies(variable)
                if len(copies) == len(parts):
                    self._has_added = True
                    for copy, part in zip(copies, parts, strict=True):
                        copy.assign(part)

    def complete(self) -> None:
        """After `rest`: add up the `gradient_sums` of all processes. Every process calls it."""
        if self.is_partial:
            with self.turn():
                self.is_partial = False
                self._complete = self._complete or self._function(self._add_up)
                self._complete()

    def _function(self, python: Callable[[], None]) -> Callable[[], None]:
        with tf.init_scope():
            function: Callable[[], None] = tf.function(python, autograph=False).get_concrete_function()
        return function

    def _give(self) -> None:
        sums = set(map(id, [*self.metric_sums, *self.gradient_sums]))
        for variable, copies in self._copies.values():
            if id(variable) not in sums:
                for copy in copies.values[1:]:
                    with tf.device(copy.device):
                        copy.assign(copies.values[0])

    def _add_up(self) -> None:
        own = [self.copies(variable)[0] for variable in self.gradient_sums]
        for variable, total in zip(own, self._reach.sum(own), strict=True):
            variable.assign(total)

    def _put_together(self) -> None:
        for variable in [*self.metric_sums, *self.gradient_sums]:
            first, *others = self.copies(variable)
            with tf.device(first.device):
                first.assign(add_in_order([first, *others]))
            for copy in others:
                with tf.device(copy.device):
                    copy.assign(tf.zeros_like(copy))

    def _place(self, model: Any) -> None:
        metrics = [metric for metric in exact.leaf_metrics(model) if exact.adds_up(metric)]
        of_metrics = [variable for metric in metrics for variable in metric.variables]
        of_gradients = [variable for optimizer in exact.optimizers(model) for variable in accumulators(optimizer)]
        self._add(_variables(model), of_metrics, of_gradients)
        for optimizer in exact.optimizers(model):
            _adopt(optimizer)

    def _add(self, variables: list[Any], of_metrics: list[Any], of_gradients: list[Any], moves: bool = True) -> None:
        kinds = [(set(map(id, of_metrics)), self.metric_sums), (set(map(id, of_gradients)), self.gradient_sums)]
        for variable in variables:
            if variable._value is None or id(variable) in self._copies:
                continue
            sums = [known for numbers, known in kinds if id(variable) in numbers]
            for known in sums:
                known.append(variable)
            if moves:
                _move(variable, self.devices[0])
            with replaced(self, "is_copying", True):
                self._copies[id(variable)] = variable, self._copies_of(variable, bool(sums))
            self._of_plain[id(variable._value)] = variable
            setattr(variable._value, OWNER, weakref.ref(self))
        locks = {id(copies.lock): copies.lock for _, copies in self._copies.values()}
        self._locks = [locks[identity] for identity in sorted(locks)]  # in the same order for all models
        self._spread = self._gather = self._complete = None
        self.is_spread = False

    def _copies_of(self, variable: Any, adds_up: bool) -> _Copies:
        plain = variable._value
        known = _shared.get((id(plain), self.devices))
        if known is not None:
            return known
        values = [plain]
        for device in self.devices[1:]:
            with tf.device(device):
                value = tf.identity(plain)
                copy = tf.Variable(
                    tf.zeros_like(value) if adds_up else value,
                    trainable=plain.trainable,  # the TensorFlow variable's: the user may unfreeze a frozen weight later
                    dtype=value.dtype,
                    name=variable.name,
                )
            setattr(copy, OWNER, lambda: None)
            copy._distributed_container = lambda: plain  # optimizers identify a variable by the plain one
            values.append(copy)
        lock = next((copies.lock for _, copies in self._copies.values()), None)
        copies = _Copies(tuple(values)) if lock is None else _Copies(tuple(values), lock)
        return _shared.setdefault((id(plain), self.devices), copies)


def accumulating(optimizer: Any) -> Any:
    """The optimizer that accumulates gradients: the given one, or the one inside it; None if neither does."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return inner if inner.gradient_accumulation_steps else None


def accumulators(optimizer: Any) -> list[Any]:
    inner = accumulating(optimizer)
    return [variable for variable in getattr(inner, "_accumulated_gradients", []) if variable is not None]


def _variables(model: Any) -> list[Any]:
    variables = list(model.variables)
    for optimizer in exact.optimizers(model):
        variables.extend(optimizer.variables)
    for metric in exact.leaf_metrics(model):
        variables.extend(metric.variables)
    return variables


def _move(variable: Any, device: str) -> None:
    """Recreate a plain variable that is not on the first device; integers stay where TensorFlow placed them."""
    before = variable._value
    here, there = map(tf.DeviceSpec.from_string, (before.device, device))
    if (here.device_type, here.device_index) == (there.device_type, there.device_index) or not before.dtype.is_floating:
        return
    with tf.device(device):
        variable._value = tf.Variable(
            tf.identity(before), trainable=before.trainable, dtype=before.dtype, name=variable.name
        )


def _adopt(optimizer: Any) -> None:
    """Renew the optimizer's index. Its keys are identities of TensorFlow variables, and some of those were recreated."""
    for one in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if one is not None and one.built:
            identify_variables(one)
