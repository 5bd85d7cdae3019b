"""A model's variables on several devices of one TensorFlow process.

At rest a Keras variable holds a variable of `tf.distribute`, which keeps its copies equal whoever assigns to it (callbacks,
`set_weights`, loading). While a step is traced, it holds the plain variable of the replica whose turn it is, so that layers,
metrics and optimizers work as on one device. Not here: steps. Imports TensorFlow, Keras and `exact`.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from itertools import count
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import values as distributed_values

from abreast import exact

# Held while the variables of a model are other than at rest, as in a trace: other threads may train and predict beside it.
AT_WORK = threading.RLock()
_key_bases = count(1000, 1000)
_plain_strategy = tf.distribute.get_strategy()  # TensorFlow's default: one device


class _Strategy(tf.distribute.MirroredStrategy):  # type: ignore[misc]  # TensorFlow has no types
    """A `MirroredStrategy` of which a process may have several.

    Two with the same collective keys and different numbers of devices disagree about the size of one group.
    """

    def __init__(self, devices: list[str]) -> None:
        self._collective_key_base = next(_key_bases)
        super().__init__(devices)


@lru_cache(maxsize=64)
def strategy(devices: tuple[str, ...]) -> Any:
    """One strategy for each tuple of TensorFlow's device names."""
    return _Strategy(list(devices))


def install() -> None:
    """Let `float(model.optimizer.learning_rate)` be a number, as it is on one device."""
    distributed_values.DistributedVariable.__float__ = lambda variable: float(variable.numpy())
    distributed_values.DistributedVariable.__int__ = lambda variable: int(variable.numpy())


class Variables:
    """Every variable that the steps of a model read or write."""

    def __init__(self, model: Any, devices: tuple[str, ...]) -> None:
        self.devices = devices
        self._at_rest: list[tuple[Any, Any]] = []
        self._averaging: list[Any] = []
        self._strategy = strategy(devices)
        self.sums: list[Any] = []
        self._place(model)
        self.enter(None)

    def is_current(self, model: Any) -> bool:
        """Whether nobody made variables, or moved them elsewhere, since this was made."""
        known = {id(variable): value for variable, value in self._at_rest}
        return all(known.get(id(variable)) is variable._value for variable in _variables(model))

    def enter(self, index: int | None) -> None:
        """Let every variable be the one of replica `index`, or, with None, all of them at once."""
        for variable, value in self._at_rest:
            variable._value = value if index is None else value.values[index]
        for optimizer in self._averaging:
            optimizer.__dict__["_distribution_strategy"] = self._strategy if index is None else _plain_strategy

    def add_optimizer(self, optimizer: Any) -> None:
        """Place the variables of an optimizer that was built just now."""
        self._add(optimizer.variables, accumulators(optimizer))
        self._adopt(optimizer)

    def copies(self, variable: Any) -> tuple[Any, ...]:
        """The plain variables of one Keras variable, one per replica."""
        return tuple(next(value for known, value in self._at_rest if known is variable).values)

    def _place(self, model: Any) -> None:
        sums: list[Any] = []
        for metric in exact.leaf_metrics(model):
            if exact.adds_up(metric):
                sums.extend(metric.variables)
        for optimizer in exact.optimizers(model):
            sums.extend(accumulators(optimizer))
        self._add(_variables(model), sums)
        for optimizer in exact.optimizers(model):
            self._adopt(optimizer)

    def _adopt(self, optimizer: Any) -> None:
        """Keras's optimizers know variables by the identity of TensorFlow's, and average them at the end of `fit`."""
        for one in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if one is not None and one.built:
                one._trainable_variables_indices = {
                    one._var_key(variable): index for index, variable in enumerate(one._trainable_variables)
                }
                if one.use_ema:
                    self._averaging.append(one)

    def _add(self, variables: list[Any], sums: list[Any]) -> None:
        adds_up = set(map(id, sums))
        known = {id(variable) for variable, _ in self._at_rest}
        for variable in variables:
            if variable._value is None or id(variable) in known:
                continue
            known.add(id(variable))
            if id(variable) in adds_up:
                self.sums.append(variable)
            variable._value = _replicate(variable, self.devices, id(variable) in adds_up)
            self._at_rest.append((variable, variable._value))


def accumulating(optimizer: Any) -> Any:
    """The optimizer itself, or the one inside of it, that accumulates gradients; None when neither does."""
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


def _replicate(variable: Any, devices: tuple[str, ...], adds_up: bool) -> Any:
    """A variable of `tf.distribute` with the value of a Keras variable."""
    placed = strategy(devices)
    before = variable._value
    if getattr(before, "_distribute_strategy", None) is placed and adds_up == (len(_synchronized(before)) > 0):
        return before
    value = tf.identity(before)
    synchronization = tf.VariableSynchronization.ON_READ if adds_up else tf.VariableSynchronization.ON_WRITE
    with placed.scope():
        after = tf.Variable(
            tf.zeros_like(value) if adds_up else value,
            trainable=getattr(before, "trainable", True),  # of the tensor: frozen weights may be thawed
            dtype=value.dtype,
            name=variable.name,
            synchronization=synchronization,
            aggregation=tf.VariableAggregation.SUM if adds_up else tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
    if adds_up:
        after.values[0].assign(value)
    return after


def _synchronized(value: Any) -> tuple[Any, ...]:
    on_read = getattr(value, "synchronization", None) == tf.VariableSynchronization.ON_READ
    return tuple(value.values) if on_read else ()
