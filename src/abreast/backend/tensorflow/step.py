"""One step of a model over several TensorFlow devices, as one graph in each process.

Every replica runs forward and backward on its rows. When all replicas have arrived, they exchange sums of gradients and the other
values that `exact` needs. Then each replica runs the optimizer by itself, on equal gradients. Not here: variables
(`variables.py`), turns and links (`turns.py`), gradients (`gradients.py`), staging (`staging.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras import tree

from abreast import exact, users_line
from abreast.arrays import map_arrays
from abreast.backend.contract import Kind, Placement
from abreast.backend.tensorflow.functions import inlined
from abreast.backend.tensorflow.gradients import SharedGradients
from abreast.backend.tensorflow.kept_tensors import KeptTensors
from abreast.backend.tensorflow.operations import calls_python, decides_by_own_rows, draws, shares_resources
from abreast.backend.tensorflow.processes import Reach
from abreast.backend.tensorflow.reduce import Reducer, add_in_order
from abreast.backend.tensorflow.summaries import Summaries
from abreast.backend.tensorflow.turns import TurnLink, Turns
from abreast.backend.tensorflow.variables import AT_WORK, Variables
from abreast.errors import ModelError
from abreast.keras_private.tensorflow import FIRST_ROWS_ARE_KNOWN


@dataclass
class StagedBatch:
    """One shard per device of this process, its tensors in the order of `structure`.

    `counts`: the number of valid rows of each shard, also of other processes. `digest`: the batch's checksum, if processes
    compare their batches.
    """

    structure: Any
    shards: list[list[Any]]
    counts: tuple[int, ...]
    digest: int = 0


class Program:
    """The steps of one kind of a model; traced again only if a batch has another structure, rank or type."""

    def __init__(self, kind: Kind, model: Any, placement: Placement, variables: Variables, reach: Reach) -> None:
        if placement.num_devices > 1:
            exact.check_layers(model)
        self.kind = kind
        self.model = model
        self.placement = placement
        self.variables = variables
        self.reach = reach
        self.optimizer = getattr(model, "optimizer", None)  # without `compile` there is none
        self.own_step = exact.overrides_step(model, kind)
        self.relations: Callable[[Any], exact.Relations | None] = exact.related_rows
        self._relations: exact.Relations | None = None  # for the numbers of rows of the present step
        self._adds_up = kind != "predict" or exact.has_metrics_of_calls(model)
        # Plain Keras reads both when it makes the function of a step, and not when it calls it.
        self._is_eager, self._jit_compile = bool(model.run_eagerly), bool(model.jit_compile)
        self.num_traces = self._first_rows = 0
        self._is_noted = reach.total == 1  # whether the draws of a step that runs eagerly were announced
        self._thread_locals = exact.thread_locals(model)
        self._apart: exact.KeptApart | None = None  # of the last step
        self._num_eager = 0  # steps that ran eagerly
        self._reducer = Reducer(variables.devices, reach.processes, model)
        self._gradients = SharedGradients(model if kind == "train" else None, variables, self._reducer)
        # By structure, numbers of rows if all batches have the same, and whether a device has few rows (`Relations.few_rows`).
        self._traces: dict[tuple[str, tuple[int, ...], bool], tuple[list[Any], Any]] = {}

    def __call__(self, staged: StagedBatch, expected: list[Any]) -> Any:
        """Run one step. `expected`: the known specs of the source's batches, which save traces."""
        tensors = [tensor for shard in staged.shards for tensor in shard]
        counts = _counts(staged.counts)
        found = self.relations(self.model)
        self._relations = None if found is None else found.for_rows(staged.counts)
        if self._is_eager:
            noting = nullcontext() if self._is_noted else exact.announcing_draws(self.model)
            if not self._num_eager and self.placement.num_devices > 1:
                exact.tell_of_effects(self.model, self.kind, self.placement.num_devices)
            self._is_noted = True
            with AT_WORK, self.variables.turn(), noting:
                self.variables.work(adds_up=self._adds_up)
                self._reducer.same_indices.begin(_rows_of_each(staged.counts))
                return self._step(staged.structure, counts, self._known(staged.counts), tensors)
        structure = str(staged.structure)
        fixed = staged.counts if self._knows_rows(staged.counts, expected) else ()
        has_few = found is not None and found.has_few(staged.counts)
        if fixed and (structure, fixed, has_few) not in self._traces and self._is_traced(structure):
            fixed = ()  # plain Keras traces a second number of rows as any number
        kind = structure, fixed, has_few
        specs, function = self._traces.get(kind, (expected, None))
        if function is None or not _accept(specs, staged.shards):
            with AT_WORK:
                _, function = self._traces[kind] = self._trace(staged, specs, fixed)
        with self.variables.turn():
            self.variables.work(adds_up=self._adds_up)
            try:
                # Not `function(...)`, which takes 0.1 ms to check and bind what `_accept` has checked.
                return function._call_flat([counts, *tensors], function.captured_inputs)
            except tf.errors.InvalidArgumentError as error:
                if _OTHER_ROWS not in str(error):
                    raise
                raise exact.other_rows() from None

    def _knows_rows(self, counts: tuple[int, ...], expected: list[Any]) -> bool:
        """Whether plain Keras knows the number of rows when it traces a step: it then weights losses of outputs by it."""
        if not self._known(counts):
            return False
        self._first_rows = self._first_rows or sum(counts)
        is_first = FIRST_ROWS_ARE_KNOWN and self.model.steps_per_execution == 1 and sum(counts) == self._first_rows
        return is_first or _are_fixed(sum(counts), expected)

    def _known(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """The rows of each replica, if a step may use them as Python numbers; else empty."""
        return () if self.reach.processes is not None or min(counts) == 0 else counts

    def _is_traced(self, structure: str) -> bool:
        return any(traced == structure for traced, *_ in self._traces)

    def _trace(self, staged: StagedBatch, known: list[Any], fixed: tuple[int, ...]) -> tuple[list[Any], Any]:
        """The specs of a batch, and the step as a graph. `fixed`: the rows of each replica if all batches have the same."""
        specs = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in staged.shards[0]]
        if len(known) == len(specs):
            specs = [_general(new, old) for new, old in zip(specs, known, strict=True)]
        same_indices = self._reducer.same_indices
        rows = _rows_of_each(fixed)
        same_indices.begin(rows)
        function = self._function(staged, specs, fixed)
        if same_indices.is_unclear:
            same_indices.begin(0)
            self._function(staged, specs, ())
            same_indices.begin(rows, same_indices.found)
            function = self._function(staged, specs, fixed)
        return specs, function

    def _function(self, staged: StagedBatch, specs: list[Any], fixed: tuple[int, ...]) -> Any:
        num_replicas = self.reach.total

        def step(counts: Any, *tensors: Any) -> Any:
            self.num_traces += 1
            _draw_apart(self.reach.first)
            for index, tensor in enumerate(tensors if fixed else ()):
                tensor.set_shape([fixed[index // len(specs)], *tensor.shape[1:]])
            return self._step(staged.structure, _counts(fixed) if fixed else counts, fixed, list(tensors))

        signature = [tf.TensorSpec([num_replicas], tf.int32), *(specs * len(staged.shards))]
        jit_compile = self._jit_compile and num_replicas == 1
        function = tf.function(step, input_signature=signature, autograph=False, jit_compile=jit_compile)
        traced = function.get_concrete_function()
        if num_replicas > 1:
            if draws(traced.graph):
                exact.announce_random(self.model)
            if shares_resources(traced.graph):
                exact.announce_resources(self.model)
            if calls_python(traced.graph):
                exact.announce_python(self.model)
            tensors = traced.inputs[1 : 1 + len(specs) * len(staged.shards)]
            shards = [tensors[start : start + len(specs)] for start in range(0, len(tensors), len(specs))]
            if decides_by_own_rows(traced.graph, shards, num_replicas):
                exact.announce_conditions(self.model)
        return traced

    def _step(self, structure: Any, counts: Any, known: tuple[int, ...], tensors: list[Any]) -> Any:
        with inlined(self.placement.num_devices):
            if self.kind != "predict" and self.reach.processes is not None:
                self._begin_sums()
            return self._results(structure, counts, known, tensors)

    def _begin_sums(self) -> None:
        """Count the sums of metrics so far in the first process only: every process has them."""
        for variable in self.variables.metric_sums if self.reach.first else ():
            first = self.variables.copies(variable)[0]
            with tf.device(first.device):
                first.assign(tf.zeros_like(first))

    def _end_sums(self) -> list[Any]:
        """Add up the sums of metrics over all replicas, set them in every process, and return them."""
        variables = self.variables.metric_sums
        totals = self._reducer.sum_once([self.variables.copies(variable) for variable in variables])
        for variable, total in zip(variables, totals, strict=True):
            first, *others = self.variables.copies(variable)
            with tf.device(first.device):
                first.assign(total)
            for copy in others:
                with tf.device(copy.device):
                    copy.assign(tf.zeros_like(copy))
        return totals

    def _results(self, structure: Any, counts: Any, known: tuple[int, ...], tensors: list[Any]) -> Any:
        width = len(tensors) // len(self.variables.devices)
        total_rows = sum(known) if known else tf.reduce_sum(counts)
        relations = self._relations
        kept, changes = KeptTensors(self.model), self._watched(counts)
        apart: exact.KeptApart | None = None

        def enter(index: int | None) -> None:
            self.variables.enter(index)
            if apart is not None:  # before tensors are exchanged, which is no change by a step
                apart.enter(index)
            kept.enter(index)
            if changes is not None:
                changes.enter(index)

        turns = Turns(self.variables.devices, enter, Summaries(self.model), self.reach, self._thread_locals)
        run_kind = {"train": self._train, "test": self._test, "predict": self._predict}[self.kind]
        replicas: dict[int, exact.Replica] = {}

        def run_replica(index: int) -> Any:
            replicas[index] = running = exact.Replica(
                self.model,
                TurnLink(turns, index, self._reducer.sum),
                rows=(known or counts)[self.reach.first + index],
                total_rows=total_rows,
                counts=counts,
                global_batch_norm=self.placement.batch_norm == "global",
                own_step=self.own_step,
                kind=self.kind,
                relations=relations,
            )
            data = _packed(structure, tensors[index * width : (index + 1) * width])

            def noting(make: Callable[..., Any], **options: Any) -> Any:
                if apart is not None and not self.variables.is_copying:
                    apart.makes = True
                return make(**options)

            with exact.replica(running), tf.variable_creator_scope(noting):
                return run_kind(running, data)

        with exact.metrics(self.model), exact.gathering(self.model, relations), self._gradients.shared(turns):
            if len(turns.devices) > 1:
                apart = self._apart = exact.KeptApart(self.model, self._apart if self._is_eager else None)
            results = turns.run(run_replica)
        if apart is not None:
            apart.end(self._is_eager and self.own_step)
        if changes is not None:
            changes.announce()
        if self.kind == "predict":
            return self._joined(results, counts)
        if self.kind == "train":
            self._average_states([replica for _, replica in sorted(replicas.items())])
        return self._logs(results, counts, total_rows, relations)

    def _watched(self, counts: Any) -> exact.ReplicaChanges | exact.BuildChanges | None:
        """Notes about Python values that the step changes, in each trace and, ever more rarely, in steps that run eagerly."""
        is_alone = len(self.variables.devices) == 1
        self._num_eager += self._is_eager
        is_due = not self._is_eager or self._num_eager.bit_count() == 1  # the steps 1, 2, 4, 8, ...
        if not is_due or (is_alone and not exact.was_changed_by_build(self.model)):
            return None
        if is_alone:
            return exact.BuildChanges(self.model)
        rows = tf.get_static_value(counts)
        rows = () if rows is None else rows[self.reach.first :].tolist()
        return exact.ReplicaChanges(self.model, rows, self._is_eager)

    def _train(self, running: exact.Replica, data: Any) -> Any:
        model = self.model
        if self.own_step:
            return model.train_step(data)
        x, y, weight = exact.unpack(data)
        with tf.GradientTape() as tape:
            y_pred = _call(model, x, training=True)
            contribution = exact.loss_contribution(running, x, y, y_pred, weight, training=True)
            target = contribution if model.optimizer is None else model.optimizer.scale_loss(contribution)
        if model.trainable_weights:
            gradients = tape.gradient(target, model.trainable_weights)
            model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        elif running.link.index == 0:
            users_line.warn("The model does not have any trainable weights.")
        return exact.update_metrics(running, contribution, x, y, y_pred, weight)

    def _test(self, running: exact.Replica, data: Any) -> Any:
        if self.own_step:
            return self.model.test_step(data)
        x, y, weight = exact.unpack(data)
        y_pred = _call(self.model, x, training=False)
        contribution = exact.loss_contribution(running, x, y, y_pred, weight, training=False)
        return exact.update_metrics(running, contribution, x, y, y_pred, weight)

    def _predict(self, running: exact.Replica, data: Any) -> Any:
        outputs = self.model.predict_step(data)
        if self.reach.total > 1:
            exact.check_outputs(outputs, data)
            _check_unknown_rows(outputs, data)
        return outputs

    def _average_states(self, replicas: list[exact.Replica]) -> None:
        """Set states that replicas changed by their own rows, mostly moving statistics, to their mean weighted by rows."""
        if self.placement.num_devices == 1:
            return
        variables = exact.diverging_variables(replicas)
        shares = [
            tuple(
                tf.math.multiply_no_nan(
                    copy, tf.cast(replica.rows, copy.dtype) / tf.cast(replica.total_rows, copy.dtype)
                )
                for replica, copy in zip(replicas, self.variables.copies(variable), strict=True)
            )
            for variable in variables
        ]
        for variable, average in zip(variables, self._reducer.sum_once(shares), strict=True):
            for copy in self.variables.copies(variable):
                with tf.device(copy.device):
                    copy.assign(average)

    def _logs(self, results: list[Any], counts: Any, total_rows: Any, relations: exact.Relations | None) -> Any:
        with tf.device("/CPU:0"):
            ended = None if self.reach.processes is None else self._end_sums()
            if self.own_step or results[0] is not None:
                kinds = relations.logs.get(self.kind, {}) if relations else {}
                return self._combined(results, tf.unstack(counts / total_rows), tf.unstack(counts > 0), kinds)
            variables = self.variables.metric_sums
            totals = ended or [add_in_order(self.variables.copies(variable)) for variable in variables]
            with keras.StatelessScope(state_mapping=list(zip(variables, totals, strict=True))):
                return _metric_results(self.model)

    def _combined(self, results: list[Any], weights: list[Any], have_rows: list[Any], kinds: dict[str, str]) -> Any:
        """The results of a user's own step or `compute_metrics`: averaged over rows, or added up if their kind is "sum".

        Metrics have equal results everywhere.
        """
        here = slice(self.reach.first, self.reach.first + len(results))

        def combine(name: str, *values: Any) -> Any:
            return _weighted_sum(list(values), (have_rows if kinds.get(name) == "sum" else weights)[here])

        totals = exact.map_logs(combine, *results)
        if self.reach.processes is None:
            return totals
        return tree.pack_sequence_as(totals, self.reach.sum(tree.flatten(totals)))

    def _joined(self, results: list[Any], counts: Any) -> Any:
        """The rows of all replicas' outputs, in order, on the host."""

        def join(*leaves: Any) -> Any:
            if any(not tf.is_tensor(leaf) or leaf.shape.rank == 0 for leaf in leaves):
                raise ModelError(
                    "predict_step returned a value without rows", "return tensors whose first axis is that of the batch"
                )
            with tf.device("/CPU:0"):
                heads = [leaf[: counts[index]] for index, leaf in enumerate(leaves, start=self.reach.first)]
                return self.reach.rows(tf.concat(heads, axis=0))

        return tree.map_structure(join, *results)


_OTHER_ROWS = "abreast: other rows of output than of the batch"


def _check_unknown_rows(outputs: Any, data: Any) -> None:
    """The check of `exact.check_outputs` for tensors whose number of rows is only known when the step runs."""
    rows = exact.first_leaf(data)
    for leaf in tree.flatten(outputs):
        if tf.is_tensor(leaf) and leaf.shape.rank and None in (leaf.shape[0], rows.shape[0]):
            tf.debugging.assert_equal(tf.shape(leaf)[0], tf.shape(rows)[0], _OTHER_ROWS)


def _metric_results(model: Any) -> dict[str, Any]:
    return dict(tree.map_structure(tf.convert_to_tensor, model.get_metrics_result()))


def _packed(structure: Any, tensors: list[Any]) -> Any:
    """The structure with the tensors in place of its zeros; None stays."""
    remaining = iter(tensors)
    return map_arrays(lambda _: next(remaining), structure)


def _call(model: Any, x: Any, training: bool) -> Any:
    return model(x, training=training) if model._call_has_training_arg else model(x)


@functools.lru_cache(maxsize=1024)
def _counts(counts: tuple[int, ...]) -> Any:
    with tf.device("/CPU:0"):
        return tf.constant(counts, tf.int32)


def _rows_of_each(counts: tuple[int, ...]) -> int:
    """The number of rows of every replica; 0 if it is not known, or not the same."""
    return counts[0] if len(set(counts)) == 1 else 0


def _are_fixed(rows: int, expected: list[Any]) -> bool:
    """Whether each batch of a source has this number of rows, as `batch(n, drop_remainder=True)` of `tf.data` promises.

    The step may then read it from the static shape of a tensor, as with plain Keras.
    """
    return bool(expected) and all(spec.shape.rank and spec.shape[0] == rows for spec in expected)


def _accept(specs: list[Any], shards: list[list[Any]]) -> bool:
    return all(spec.is_compatible_with(tensor) for shard in shards for spec, tensor in zip(specs, shard, strict=True))


def _general(new: Any, old: Any) -> Any:
    """A spec that accepts both shapes, if they have the same rank; else the new spec. The type is the new spec's."""
    return tf.TensorSpec(
        new.shape.most_specific_compatible_shape(old.shape) if new.shape.rank == old.shape.rank else new.shape,
        new.dtype,
    )


def _weighted_sum(values: list[Any], weights: list[Any]) -> Any:
    tensors = [tf.convert_to_tensor(value) for value in values]
    dtype = tensors[0].dtype if tensors[0].dtype.is_floating else keras.config.floatx()
    return add_in_order(
        [
            tf.math.multiply_no_nan(tf.cast(tensor, dtype), tf.cast(weight, dtype))
            for tensor, weight in zip(tensors, weights, strict=True)
        ]
    )


def _draw_apart(first_replica: int) -> None:
    """Make TensorFlow's own random operations of this trace draw different numbers in each process."""
    graph = tf.compat.v1.get_default_graph()
    if first_replica and graph.seed is not None:
        graph.seed += first_replica * _SEED_STRIDE


_SEED_STRIDE = 1_000_003
