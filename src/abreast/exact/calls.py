"""Recorded runs of a model: with all rows of a batch, with a part of them, and with all rows again.

A run records the inputs, outputs, added losses and new states of each member's calls. A run of a part replaces each output by
the part's rows of the output in the full run. So a difference belongs to one member, and later members are judged by themselves.
Not here: how the records are compared (`run_differences.py`). Imports no framework.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops, tree

from abreast.exact.by_weight import by_weight
from abreast.exact.members import is_whole, leaf_metrics, members, optimizers, watched
from abreast.exact.relations import CallAxes
from abreast.exact.replica import is_number, with_gradient_times
from abreast.exact.row_by_row import row_by_row
from abreast.exact.rows import RowAxis, RowRange, distance, row_axis, ways_to_cut
from abreast.exact.step_logs import map_logs
from abreast.keras_private import attached
from abreast.keras_private.modules import module_of
from abreast.replacing import put_on
from abreast.users_functions import is_users_function

THE_STEP = -1  # the number of the model's caller: a user's own step
_thread = threading.local()


class TensorPlace(NamedTuple):
    """One tensor of one call: input ("in"), output ("out") or "mask" `leaf` of member `number` in its call number `turn`."""

    number: int
    turn: int
    side: str
    leaf: int


class FullRun:
    """The run with all rows, which keeps every tensor. The other runs are compared with it."""

    def __init__(
        self,
        model: Any,
        states: list[Any],
        values: dict[int, Any],
        sees_hidden: bool = False,
        by_row: Mapping[int, tuple[CallAxes, ...]] | None = None,
    ) -> None:
        """`values` replace those of variables, by identity; `sees_hidden`: see `distance`, for runs that are compared.

        `by_row`: the row axes of the members whose outputs get gradients of each row by itself (`row_by_row.py`).
        """
        self.sees_hidden, self.by_row = sees_hidden, by_row or {}
        self.members = members(model)
        self.values = values
        self._all = {id(member): number for number, member in enumerate(self.members)}
        self._numbers = watched(model)
        self._states = states
        self._stack = [THE_STEP]
        self._turns: Counter[int] = Counter()
        self.tensors: dict[TensorPlace, Any] = {}
        self.callers: dict[tuple[int, int], int] = {}
        self.losses: dict[int, list[Any]] = {}  # by the member whose `add_loss` was called
        self.added_losses: dict[int, list[Any]] = {}  # what `Layer.losses` shows, by identity of the layer
        self.adders: dict[int, int] = {}  # by the same member: the watched member that was running then
        self.owners: dict[int, int] = {}  # identity of a state -> member in whose call it changed
        self.new_states: dict[int, Any] = {}
        self._written: set[int] = set()  # identities of states that code has written to, past `assign`
        self.untracked: dict[int, Any] = {}  # by identity: assigned variables that are not among `states`
        # By call: sums over the weights of the member then, which a user's step may have changed.
        self.weights: dict[tuple[int, int], list[float]] = {}
        # By call: the Python numbers that the member got, such as a number of rows.
        self.numbers: dict[tuple[int, int], list[Any]] = {}
        self.read_states: set[int] = set()  # identities of states that a member read after another had changed them
        self.gradients: list[list[Any]] = []  # by call of an optimizer
        self.logs: dict[str, Any] = {}  # the values that a step returns
        self.results: list[Any] = []  # of metrics, which the step's code has read: in steps, those of all rows
        # Metric -> its calls -> the values that the call got, leaf by leaf; None for what is no number and no array.
        self.given: dict[int, list[list[Any]]] = {}
        self.givers: dict[int, list[int]] = {}  # metric -> for each call, the watched member that was running then
        self._new_metrics: list[Any] = []  # those that the run has made
        self.makes_metrics = False  # whether the model holds some of these

    def run(self, forward: Callable[[Any], Any], data: Any) -> None:
        """Run `forward(data)` and record the call of every watched member; variables keep their values."""
        scope = self._scope = _Scope(self.values, self._note_read)
        with self._watching(), scope:
            result = forward(data)
            self.logs = self._values_of(result)  # this run's own values, not those of the full run
            self._met(THE_STEP, 0, "out", result)
        self.makes_metrics = not set(map(id, leaf_metrics(self.members[0]))).isdisjoint(map(id, self._new_metrics))
        known = {id(each) for each in (*self._states, *(v for metric in self._new_metrics for v in metric.variables))}
        self.untracked = {number: each for number, each in scope.variables.items() if number not in known}
        for state in [*self._states, *self.untracked.values()]:
            value = scope.state_mapping.get(id(state))
            if value is None and id(state) in self._written:
                value = state.value
            if value is not None:
                self.new_states[id(state)] = as_array(value)

    def note_written(self, state: Any) -> None:
        """Note that the code that runs now writes into the memory of a state."""
        self._written.add(id(state))
        self.owners.setdefault(id(state), self._stack[-1])

    def _note_read(self, state: int) -> None:
        if self.owners.get(state, self._stack[-1]) != self._stack[-1]:
            self.read_states.add(state)

    def _values_of(self, logs: Any) -> dict[str, Any]:
        """The numbers and arrays in a step's logs, by name, except results of metrics and an optimizer's own variables."""
        found: dict[str, Any] = {}
        others = [*self.results, *(each for optimizer in optimizers(self.members[0]) for each in optimizer.variables)]

        def note(name: str, leaf: Any) -> None:
            if (value := _value(leaf)) is not None and not any(leaf is each for each in others):
                found[name] = value

        if isinstance(logs, dict):
            map_logs(note, logs)
        return found

    def equals_result(self, value: Any) -> bool:
        """Whether a value is equal to a result of a metric: one that was made of it, or the only value that the metric got."""
        known = (_value(each) for each in self.results)
        return any(np.array_equal(value, each, equal_nan=value.dtype.kind == "f") for each in known if each is not None)

    def tensor(self, place: TensorPlace, leaf: Any) -> Any:
        """Record a tensor; return the tensor with which the run continues."""
        self.tensors[place] = leaf
        return leaf

    def add_loss(self, layer: Any, loss: Any) -> None:
        number = self._all.get(id(layer), self._stack[-1])
        self.adders.setdefault(number, self._stack[-1])
        for each in tree.flatten(loss):
            values = self.losses.setdefault(number, [])
            values.append(as_array(ops.sum(each)))
            self.added_losses.setdefault(id(layer), []).append(self._shown(number, each))

    def _shown(self, number: int, loss: Any) -> Any:
        """The loss that the run's code reads from `Layer.losses`: in steps, readers get that of all rows.

        Its gradient is zero, because a loss may be a sum over rows, which steps count otherwise than means.
        """
        return with_gradient_times(loss, 0.0)

    def note_gradients(self, gradients: Any) -> None:
        """Record the gradients in place of an optimizer's `apply`; changes no variable."""
        dense = [None if gradient is None else ops.convert_to_tensor(gradient) for gradient in gradients]
        self.gradients.append([None if gradient is None else as_array(gradient) for gradient in dense])

    def note_metric(self, metric: Any) -> None:
        """Watch a metric that the run has made; what it gets is not compared."""
        self._new_metrics.append(metric)
        put_on(metric, result=self._note_result(metric.result))

    @contextmanager
    def _watching(self) -> Iterator[None]:
        with ExitStack() as undo, self._watching_calls():
            for number, metric in enumerate(leaf_metrics(self.members[0])):
                update, result = self._note_given(number, metric.update_state), self._note_result(metric.result)
                undo.callback(put_on(metric, update_state=update, result=result))
            yield

    def _note_given(self, number: int, plain: Callable[..., Any]) -> Callable[..., Any]:
        def update_state(*args: Any, **kwargs: Any) -> Any:
            self.given.setdefault(number, []).append([_value(leaf) for leaf in tree.flatten((args, kwargs))])
            self.givers.setdefault(number, []).append(self._stack[-1])
            return plain(*args, **kwargs)

        return update_state

    def _note_result(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def result() -> Any:
            found = self._result(plain())
            self.results += tree.flatten(found)
            return found

        return result

    def _result(self, found: Any) -> Any:
        """The result of a metric that the run's code reads."""
        return found

    @contextmanager
    def _watching_calls(self) -> Iterator[None]:
        by_identity = {id(member): member for member in self.members}
        before, _thread.run = getattr(_thread, "run", None), self
        with ExitStack() as undo:
            undo.callback(setattr, _thread, "run", before)
            for identity, number in self._numbers.items():
                member = by_identity[identity]
                name = call_name(member)
                if not module_of(vars(member).get(name)).startswith("abreast."):  # not of `gathering`
                    undo.callback(put_on(member, **{name: self._watch(number, getattr(member, name))}))
                    if is_users_function(getattr(type(member), "compute_mask", None)):
                        undo.callback(put_on(member, compute_mask=self._watch_mask(number, member.compute_mask)))
            yield

    def _watch_mask(self, number: int, plain: Callable[..., Any]) -> Callable[..., Any]:
        def compute_mask(*args: Any, **kwargs: Any) -> Any:
            return self._met(number, self._turns[number] - 1, "mask", plain(*args, **kwargs))

        return compute_mask

    def _watch(self, number: int, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            turn = self._turns[number]
            self._turns[number] += 1
            self.callers[number, turn] = self._stack[-1]
            self.numbers[number, turn] = [each for each in tree.flatten((args, kwargs)) if type(each) in (int, float)]
            self.weights[number, turn] = _sums_of_weights(self.members[number])
            args, kwargs = self._met(number, turn, "in", (args, kwargs))
            self._own_states(self._stack[-1])  # those that the caller has assigned before this call
            self._stack.append(number)
            try:
                outputs = plain(*args, **kwargs)
                self._own_states(number)
                if axes := self.by_row.get(number):
                    outputs = row_by_row(outputs, (args, kwargs), self.members[number].trainable_variables, axes[turn])
            finally:
                self._stack.pop()
            return self._met(number, turn, "out", outputs)

        return call

    def _own_states(self, number: int) -> None:
        assigned = self._scope.state_mapping
        if len(assigned) > len(self.owners):
            for identity in assigned.keys() - self.owners.keys():
                self.owners[identity] = number

    def _met(self, number: int, turn: int, side: str, data: Any) -> Any:
        leaves = tree.flatten(data)
        going_on = [
            self.tensor(TensorPlace(number, turn, side, index), leaf) if is_tensor(leaf) else leaf
            for index, leaf in enumerate(leaves)
        ]
        if all(new is old for new, old in zip(going_on, leaves, strict=True)):
            return data
        return tree.pack_sequence_as(data, going_on)


class _Scope(keras.StatelessScope):  # type: ignore[misc]
    """A stateless scope with other values of some variables; it keeps the variables that were assigned inside, by identity."""

    def __init__(self, values: dict[int, Any], note_read: Callable[[int], None]) -> None:
        """`note_read` gets the identity of a variable that is read after an assignment."""
        super().__init__()
        self._values = values
        self._note_read = note_read
        self.variables: dict[int, Any] = {}

    def get_current_value(self, variable: Any) -> Any:
        value = super().get_current_value(variable)
        if value is None:
            return self._values.get(id(variable))
        self._note_read(id(variable))
        return value

    def add_update(self, update: Any) -> None:
        self.variables[id(update[0])] = update[0]
        super().add_update(update)


class PartRun(FullRun):
    """A run that is compared with the full run, tensor by tensor; `distances` has an entry for every tensor that differs."""

    def __init__(self, model: Any, states: list[Any], whole: FullRun, part: RowRange) -> None:
        super().__init__(model, states, whole.values, by_row=whole.by_row)
        self.whole, self.part = whole, part
        self.distances: dict[TensorPlace, float] = {}
        self.axes: dict[TensorPlace, RowAxis | None] = {}
        self.unclear: set[TensorPlace] = set()
        # By identity: optimizers whose gradients are a part of those of all rows (`overflow.py`).
        self.scaled_by_share: dict[int, Any] = {}
        # By identity: tensors with the expected values, the tensors of the full run that these are, and their axes. They are kept
        # alive, so that no other gets the same identity.
        self._known: dict[int, tuple[Any, Any, RowAxis | None]] = {}

    def _result(self, found: Any) -> Any:
        """That of the full run: a step reads the results of all rows."""
        place, leaves = len(self.results), tree.flatten(found)
        expected = self.whole.results[place : place + len(leaves)]
        are_alike = [getattr(each, "shape", ()) for each in expected] == [getattr(each, "shape", ()) for each in leaves]
        alone = [ops.stop_gradient(each) if is_tensor(each) else each for each in expected]
        return tree.pack_sequence_as(found, alone) if are_alike else found

    def _shown(self, number: int, loss: Any) -> Any:
        expected = self.whole.losses.get(number, [])[: len(self.losses[number])]
        if len(expected) < len(self.losses[number]) or len(loss.shape):
            return super()._shown(number, loss)
        return ops.convert_to_tensor(expected[-1], dtype=loss.dtype) + super()._shown(number, loss - loss)

    def tensor(self, place: TensorPlace, leaf: Any) -> Any:
        expected = self.whole.tensors.get(place)
        if expected is None:
            return leaf
        try:
            axis = row_axis(expected.shape, leaf.shape, self.part)
        except ValueError:
            self.unclear.add(place)
            self.distances[place] = float("inf")
            return leaf
        _, known, known_axis = self._known.get(id(leaf), (None, None, None))
        if known is expected:  # not so where a layer returns its input, as it did not in the full run
            self.axes[place] = known_axis
            return leaf
        ways, found = ways_to_cut(as_array(expected), axis, self.part), as_array(leaf)
        distances = [distance(way, found, self.whole.sees_hidden) for way in ways]
        best = distances.index(min(distances))
        self.axes[place] = axis = replace(axis, is_strided=True) if axis is not None and best else axis
        if distances[best]:
            self.distances[place] = distances[best]
            leaf = replaced(leaf, ways[best])
        self._known[id(leaf)] = leaf, expected, axis
        return leaf


class PerturbedRun(PartRun):
    """The full run again, with every tensor changed by about its rounding: differences come from rounding or random numbers.

    So are the weights, unless their gradients count: of inputs that are whole numbers, a product has no rounding otherwise.
    """

    def __init__(self, model: Any, states: list[Any], whole: FullRun, rows: int, moves_weights: bool) -> None:
        super().__init__(model, states, whole, RowRange(rows, 0, rows))
        if moves_weights:
            weights = [each for each in model.trainable_variables if id(each) not in whole.values]
            self.values = whole.values | {id(each): _moved_weight(each) for each in weights}

    def tensor(self, place: TensorPlace, leaf: Any) -> Any:
        expected = self.whole.tensors.get(place)
        if expected is None:
            return leaf
        expected = as_array(expected)
        self.distances[place] = distance(expected, as_array(leaf), self.whole.sees_hidden)
        if expected.dtype.kind not in "fV" or not expected.size:
            return leaf
        return replaced(leaf, moved(expected))


def moved(array: Any) -> Any:
    """A copy of an array in which every second number is a little larger, and the others are a little smaller.

    Round numbers stay: a class or a flag that is stored as a float has no rounding, and with a little less it is another one.
    """
    wide = array.astype(np.float32) if array.dtype.itemsize < 4 else array.copy()
    step = wide.dtype.type(4 * resolution(array))
    factors = np.full(wide.size, 1 - step)
    factors[::2] = 1 + step
    other = wide * factors.reshape(wide.shape)
    scaled = wide if array.dtype.itemsize < 4 else 8 * wide  # in half precision, many numbers are multiples of 1/8
    return np.where(scaled == np.rint(scaled), wide, other).astype(array.dtype)


def _moved_weight(weight: Any) -> Any:
    return ops.convert_to_tensor(moved(as_array(weight.value)), dtype=weight.dtype)


def resolution(array: Any) -> float:
    """The relative distance between neighbouring numbers of an array's type; 0 for types that are not floating."""
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        return 2.0**-7
    return float(np.finfo(array.dtype).eps) if array.dtype.kind in "fc" else 0.0


def replaced(leaf: Any, array: Any) -> Any:
    """A tensor with the values of `array`, and with the gradient, the mask and the logits of `leaf`."""
    other = ops.convert_to_tensor(array, dtype=keras.backend.standardize_dtype(leaf.dtype))
    if keras.backend.is_float_dtype(other.dtype) and np.isfinite(array.astype(np.float64)).all():
        other = other + (leaf - ops.stop_gradient(leaf))
    attached.keep(leaf, other)
    return other


def call_name(member: Any) -> str:
    """The name of the method that Keras calls on a layer or an operation."""
    return "call" if getattr(member, "quantization_mode", None) is None else "quantized_call"


def _sums_of_weights(member: Any) -> list[float]:
    weights = member.trainable_variables if is_whole(member) else getattr(member, "_trainable_variables", [])
    return [float(as_array(ops.sum(ops.abs(weight)))) for weight in weights]


def _value(leaf: Any) -> Any:
    """A number or a numeric array; None for anything else."""
    is_array = (
        isinstance(leaf, keras.Variable)
        or is_tensor(leaf)
        or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub")
    )
    is_symbolic = ops.is_tensor(leaf) and not is_tensor(leaf)
    if isinstance(leaf, bool) or is_symbolic or not (is_array or is_number(leaf)):
        return None
    array = as_array(ops.convert_to_tensor(leaf))
    return None if array.dtype.kind == "O" else array  # texts of TensorFlow


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf is a tensor with values; a KerasTensor and a tensor of a traced function have none."""
    return ops.is_tensor(leaf) and not isinstance(leaf, keras.KerasTensor) and "Symbolic" not in type(leaf).__name__


def as_array(leaf: Any) -> Any:
    values = ops.stop_gradient(leaf) if keras.backend.is_float_dtype(leaf.dtype) else leaf
    # With one axis more, because TensorFlow makes no array of a scalar in bfloat16.
    return ops.convert_to_numpy(ops.expand_dims(values, 0))[0, ...]


def running() -> FullRun | None:
    """The run that this thread is in; None outside runs."""
    run: FullRun | None = getattr(_thread, "run", None)
    return run


def is_result(tensor: Any) -> bool:
    """Whether a tensor is the result of a metric that the code of this thread's run has read."""
    run = running()
    return run is not None and any(tensor is each for each in run.results)


def noted(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer's `apply` that records the gradients in a run of ours, and changes nothing there."""

    @functools.wraps(plain)
    def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
        run = running()
        if run is None:
            return plain(optimizer, grads, trainable_variables)
        gradients = grads if trainable_variables is None else by_weight(optimizer, grads, trainable_variables)[0]
        if isinstance(run, PartRun) and id(optimizer) in run.scaled_by_share:
            times = run.part.total / run.part.rows
            gradients = [None if gradient is None else gradient * times for gradient in gradients]
        return run.note_gradients(gradients)

    return apply
