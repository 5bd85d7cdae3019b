"""TensorFlow: one process drives all devices; a step is one graph, and every replica in it works on its rows.

Here: devices, and the functions that Keras's trainer calls. `staging.py` copies to devices, `build.py` makes variables, `step.py`
has the step. `exact` makes losses, metrics and BatchNormalization exact. With several processes, each drives its own devices and
works on its own rows (`launched.py`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf
from keras import tree

from abreast import exact, keras_distribution
from abreast.arrays import arrays_of, map_arrays
from abreast.backend.contract import Kind, Placement, StepFunction
from abreast.backend.tensorflow import eager_uses, eagerly
from abreast.backend.tensorflow import functions as tensorflow_functions
from abreast.backend.tensorflow import variables as tensorflow_variables
from abreast.backend.tensorflow.build import build, make_metrics
from abreast.backend.tensorflow.dataset import arrays_after
from abreast.backend.tensorflow.devices import device_names, grow_memory, tf_names
from abreast.backend.tensorflow.instruments import TensorFlowInstruments
from abreast.backend.tensorflow.launched import Launched
from abreast.backend.tensorflow.probe import TensorFlowProbe
from abreast.backend.tensorflow.processes import Reach
from abreast.backend.tensorflow.staging import put_own_shards, put_shards, to_device
from abreast.backend.tensorflow.step import Program, StagedBatch
from abreast.backend.tensorflow.strategies import taking_over
from abreast.backend.tensorflow.variables import AT_WORK, Variables
from abreast.errors import BackendError, DataError, ModelError
from abreast.feed import Feed, Handed, HostBatch, ReadsParts, Taken, array_parts, begin, not_dense, own_reading, take
from abreast.keras_private.data_adapters import (
    ArrayDataAdapter,
    GeneratorDataAdapter,
    PyDatasetAdapter,
    TFDatasetAdapter,
    TorchDataLoaderAdapter,
    places_and_rows,
    skips_of,
)
from abreast.keras_private.tensorflow import TensorFlowTrainer, TFEpochIterator, concat
from abreast.keras_private.trainers import EpochIterator
from abreast.launchers import World
from abreast.staging import Leaves, Stage

_PLAIN_STRATEGY = tf.distribute.get_strategy()  # TensorFlow's default: one device


class TensorFlowBackend:
    """See `backend/contract.py`."""

    name: Final = "tensorflow"
    instruments: TensorFlowInstruments

    def __init__(self) -> None:
        self._variables: WeakKeyDictionary[Any, Variables] = WeakKeyDictionary()
        self.instruments = TensorFlowInstruments(self._rest, self._variables)
        self._specs: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()  # by adapter: the specs of its batches
        self._installed = False
        self._launched: Launched | None = None

    @property
    def steps_run_python(self) -> bool:
        return eagerly.functions_run_eagerly()

    def use_cpu_devices(self, count: int) -> None:
        try:
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_visible_devices([], "GPU")
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError as error:
            if self.device_names() == tuple(f"cpu:{index}" for index in range(count)):
                return
            raise BackendError(
                f"TensorFlow has already started, with {', '.join(self.device_names())}",
                "call abreast.use_cpu_devices before anything is computed",
            ) from error

    def device_names(self) -> tuple[str, ...]:
        return device_names()

    def join(self, world: World) -> tuple[str, ...]:
        if self._launched is None:
            self._launched = Launched(world, self._variables)
        return self._launched.names

    @property
    def job(self) -> Launched | None:
        return self._launched

    def install(self, devices: tuple[str, ...]) -> None:
        if devices[0].startswith("gpu:"):
            with contextlib.suppress(RuntimeError):  # TensorFlow has started, and holds memory of all GPUs
                gpus = tf.config.list_physical_devices("GPU")
                tf.config.set_visible_devices([gpus[int(name.removeprefix("gpu:"))] for name in devices], "GPU")
        if self._installed:
            return
        self._installed = True
        grow_memory()
        exact.install()  # before other code replaces one of these functions for a while
        tensorflow_functions.install()
        tensorflow_variables.install()
        eager_uses.install()
        eagerly.install(self._variables)
        epoch_iterator: Any = TFEpochIterator
        plain_init, plain_iterator = epoch_iterator.__init__, epoch_iterator._get_iterator

        def init(self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
            # Plain Keras would distribute its dataset; a feed cuts its batches itself.
            if isinstance(kwargs.get("x"), Feed):
                _refuse(distribute_strategy)
                EpochIterator.__init__(self, *args, **kwargs)
                self._distribute_strategy = distribute_strategy
            else:
                plain_init(self, distribute_strategy, *args, **kwargs)

        def get_iterator(self: Any) -> Any:
            if not isinstance(self.data_adapter, Feed):
                return plain_iterator(self)
            iterator = iter(self.data_adapter)
            iterator.hands_staged = True  # only `predict` takes batches from it by `next`
            return iterator

        epoch_iterator.__init__, epoch_iterator._get_iterator = init, get_iterator
        for name in ("reset_metrics", "_get_metrics_result_or_logs"):  # called at the beginning and end of an epoch
            setattr(TensorFlowTrainer, name, self._at_rest(getattr(TensorFlowTrainer, name)))

    def taking_over(self, num_devices: int) -> AbstractContextManager[None]:
        return taking_over(num_devices)

    def source(self, adapter: Any, placement: Placement | None = None) -> Callable[[], Iterator[Any]]:
        launched = None if placement is not None and placement.is_per_host else self._launched
        if not isinstance(adapter, (ArrayDataAdapter, TFDatasetAdapter)):
            # Keras passes these through tf.data, which would copy each batch once more and hide errors of their code.
            # To learn the types, it reads first batches, and a source may draw random numbers for them: do the same.
            if isinstance(adapter, (GeneratorDataAdapter, PyDatasetAdapter, TorchDataLoaderAdapter)):
                with contextlib.suppress(
                    TypeError, ValueError
                ):  # arrays that no step accepts; the first batch reports them
                    self._specs[adapter] = _specs_of(adapter.get_tf_dataset())

            def numpy_epoch() -> Iterator[Any]:
                if launched is not None:
                    launched.agree_on_order()
                    if placement is not None and isinstance(adapter, ReadsParts):
                        return adapter._parts(launched.own_rows)
                    if placement is not None and (own := own_reading(adapter, launched.own_rows)) is not None:
                        return _to_the_end(adapter, own.parts(own.adapter.get_numpy_iterator()))
                batches = _to_the_end(adapter, adapter.get_numpy_iterator())
                return (tree.map_structure(_dense, batch) for batch in batches)

            return numpy_epoch
        in_parts = launched is not None and placement is not None and isinstance(adapter, ArrayDataAdapter)
        plain, rows_at = (places_and_rows(adapter) if in_parts else None) or (adapter, None)
        with nullcontext() if launched is None else launched.seeds_of_rank_0():
            dataset = plain.get_tf_dataset()
        if rows_at is None:
            self._specs[adapter] = _specs_of(dataset)

        def epoch() -> Iterator[Any]:
            if launched is not None:
                launched.agree_on_order()
            # Made now, not at the first batch: a dataset that shuffles draws its order when an iterator is made.
            batches = begin(dataset if (skips := skips_of(adapter)) is None else arrays_after(plain, skips))
            if rows_at is not None and launched is not None:
                return array_parts((np.asarray(places) for (places,) in batches), rows_at, launched.own_rows)
            return (tree.map_structure(_dense, batch) for batch in batches)

        return epoch

    def stage(self, placement: Placement) -> Stage[StagedBatch]:
        processes = self._launched if placement.is_per_host else None
        return Stage(functools.partial(self.put, placement=placement), leaves=Leaves(text=True), processes=processes)

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        if self._launched is None:
            return put_shards(batch, placement)
        if placement.is_per_host:
            return put_own_shards(batch, placement)
        staged = put_shards(batch, placement, self._launched.reach.first)
        staged.digest = batch.compared
        return staged

    def place(self, model: Any, placement: Placement) -> None:
        devices = tf_names(placement.devices)
        _refuse(model.distribute_strategy)
        keras_distribution.refuse_current()
        with AT_WORK:
            known = self._variables.get(model)
            if known is None or known.devices != devices or not known.is_current(model):
                self._variables[model] = Variables(model, devices, self._reach(placement))
            self.instruments.write_due_sums(model)
            if self._launched is not None:
                self._launched.agree_on_variables(self._variables[model])

    def _reach(self, placement: Placement) -> Reach:
        return Reach(0, placement.num_devices) if self._launched is None else self._launched.reach

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> StepFunction:
        self._announce(model, placement)
        return eagerly.for_each_way(lambda: self._steps(kind, model, placement))

    def _steps(self, kind: Kind, model: Any, placement: Placement) -> StepFunction:
        programs: list[Program] = []
        wanted = placement.check_rows and placement.num_devices > 1
        check = exact.RowCheck(kind, model, wanted, is_traced=not model.run_eagerly)
        stage = self.stage(placement)
        relations = exact.related_rows if self._launched is None else self._launched.related_rows

        # Of layers that are built in the first step, plain Keras trains nothing if the step asks for their weights before.
        is_eager = kind == "train" and model.run_eagerly
        unbuilt = (
            frozenset(id(layer) for layer in model._flatten_layers() if not layer.built) if is_eager else frozenset()
        )

        def prepare(taken: Taken[StagedBatch]) -> None:
            if not programs:
                with AT_WORK:
                    build(kind, model, taken.host)
                    self.place(model, placement)
            if check.is_due:
                before = _steps_part(relations(model))
                with AT_WORK:
                    self._check_rows(check, model, taken, placement, unbuilt)
                if not check.is_due and self._launched is not None:
                    self._launched.agree_on_relations(model)
                if (found := relations(model)) is not None and found.makes_metrics and not model.run_eagerly:
                    with AT_WORK:
                        make_metrics(kind, model, taken.host)
                        self.place(model, placement)
                    found.makes_metrics = False
                if _steps_part(relations(model)) != before:
                    programs.clear()  # traced for batches that show no relations, such as those of one row

        def one_step(source: Any, taken: Taken[StagedBatch]) -> Any:
            if taken.counts is not None and self._launched is not None:
                self._launched.complete(taken.staged, taken.counts)
            check.meet(taken.host if taken.is_whole else None)
            if not programs or check.is_due:
                with nullcontext() if self._launched is None else self._launched.preparing(model):
                    prepare(taken)
            if not programs or programs[-1].variables is not self._variables[model]:
                if kind == "train" and programs and programs[-1].optimizer is not model.optimizer:
                    _announce_optimizer(model)
                programs[:] = [Program(kind, model, placement, self._variables[model], self._reach(placement))]
                programs[-1].relations = relations
            if self._launched is not None:
                self._launched.note_assigned(self._variables[model])
                self._launched.before_step(taken.staged.digest, model)
            if programs[-1].own_step:
                exact.state_rule_of_own_step(kind, model, taken.staged.counts)
            with nullcontext() if self._launched is None else self._launched.stepping(kind, model):
                result = programs[-1](taken.staged, self._expected(source))
            if kind == "predict" and self._launched is not None:
                return self._launched.kept_outputs(result, taken.counts)
            return result

        def run(batches: Iterator[Any]) -> Any:
            try:
                taken = take(batches, stage, kind)
            except (StopIteration, tf.errors.OutOfRangeError):
                if kind == "train" and programs:
                    _announce_end(model)
                raise
            results = [one_step(batches, taken)]
            for _ in range(1, model.steps_per_execution):
                try:
                    taken = take(batches, stage, kind)
                except (StopIteration, tf.errors.OutOfRangeError):
                    break
                results.append(one_step(batches, taken))
            if getattr(batches, "state_is_read_between_steps", False):
                self._rest(model)
            return _joined(results) if kind == "predict" else results[-1]

        def predict(batches: list[Any]) -> Any:
            return run(_InTurn(batches))

        return StepFunction(run, predict if kind == "predict" else run)

    def _expected(self, source: Any) -> list[Any]:
        """Specs of all batches of a source, if Keras knows them before the first batch."""
        return self._specs.get(source.adapter, []) if hasattr(source, "adapter") else []

    def _check_rows(
        self,
        check: exact.RowCheck,
        model: Any,
        taken: Taken[StagedBatch],
        placement: Placement,
        unbuilt: frozenset[int],
    ) -> None:
        """`unbuilt`: identities of the layers that were not built before."""
        probe = TensorFlowProbe(model, tf_names(placement.devices)[0], self._launched is None, unbuilt)
        batch, counts = taken.host, taken.staged.counts

        def first(count: int) -> Any:
            with tf.device(probe.device):
                rows = map_arrays(to_device, batch.telling_rows(count))
            probe.watch.note_rows(arrays_of(rows))
            return rows

        # `counts[0]` is known to all processes: rank 0 has at least that many rows, and its findings are used.
        check(batch.rows if taken.is_whole else counts[0], counts[0], batch.num_bytes, first, probe)
        if probe.watch.shares_resources:
            exact.announce_resources(model)
        if model.run_eagerly and not probe.watch.reads_rows:
            exact.announce_unseen_reads(model, check.kind)
        if probe.watch.read_early is not None:
            _announce_early_weights(model, probe.watch.read_early)

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        self._rest(model, together=not failed)
        if self._launched is not None:
            self._launched.call_ended(failed, self._variables.get(model))

    def close(self, placement: Placement) -> None:
        pass

    def _at_rest(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A method that reads variables or assigns to them, made safe while another thread traces the same model."""

        @functools.wraps(plain)
        def method(model: Any, *args: Any, **kwargs: Any) -> Any:
            if exact.is_inside():  # called by the step itself: each replica works on its own copies
                return plain(model, *args, **kwargs)
            self._rest(model)
            with AT_WORK:
                return plain(model, *args, **kwargs)

        return method

    def _rest(self, model: Any, together: bool = True) -> None:
        variables = self._variables.get(model)
        if variables is not None:
            variables.rest()
            if together:
                variables.complete()

    def _announce(self, model: Any, placement: Placement) -> None:
        asked = getattr(model, "_compile_config", None)
        if placement.num_devices == 1 or asked is None or asked.config.get("jit_compile") is not True:
            return
        exact.warn_once(
            asked,
            "jit_compile",
            f"jit_compile=True is ignored: XLA compiles programs of one device, and this model trains on "
            f"{placement.num_devices}",
        )


def _specs_of(dataset: Any) -> list[Any]:
    """The specs of a data set's arrays, without those of values that are no arrays."""
    return [spec for spec in tree.flatten(getattr(dataset, "element_spec", ())) if hasattr(spec, "shape")]


def _steps_part(found: exact.Relations | None) -> str:
    return "" if found is None else found.steps_part()


def _announce_early_weights(model: Any, layer: Any) -> None:
    exact.warn_once(
        model,
        "early weights",
        f"the train_step of {type(model).__name__} takes the weights of {exact.name_of(layer)} before it calls this layer for "
        "the first time. With `run_eagerly`, plain Keras has no weights at that moment, so its first step trains none of them. "
        "With abreast they are trained: call the model once before `fit` for the same result",
    )


def _announce_optimizer(model: Any) -> None:
    exact.warn_once(
        model,
        "optimizer",
        f"the optimizer of {model.name} has changed without `compile`: the new one trains. Plain Keras on TensorFlow goes on "
        "with the former one, which is in its compiled step, until `compile`",
    )


class _InTurn:
    """The batches of `predict`, which Keras itself takes and passes as a list; batches of `predict_on_batch` are plain."""

    def __init__(self, batches: list[Any]) -> None:
        self._batches = iter(batches)
        if isinstance(batches[0], Handed):
            self.adapter = batches[0].adapter
            self.state_is_read_between_steps = batches[0].state_is_read_between_steps

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._batches)


def _joined(outputs: list[Any]) -> Any:
    """The outputs for the rows of several batches."""
    return tree.map_structure(lambda *parts: concat(parts) if len(parts) > 1 else parts[0], *outputs)


def _refuse(strategy: Any) -> None:
    """Raise `ModelError` for a strategy of the user: Keras would ask that strategy for batches."""
    if strategy is not _PLAIN_STRATEGY:
        raise ModelError(
            f"a model belongs to a tf.distribute.{type(strategy).__name__}, and abreast distributes it, too",
            "take `with strategy.scope():` out of the script, and make batch_size that of all devices; or leave abreast out of "
            "the script and start it with `abreast run`, which takes a MirroredStrategy over",
        )


def _dense(leaf: Any) -> Any:
    """A leaf of a source's batch; a tensor stays a tensor, so that its data does not pass through Python."""
    if leaf is None or isinstance(leaf, tf.experimental.Optional):
        return None
    if isinstance(leaf, tf.distribute.DistributedValues):
        raise DataError(
            "the data source gives batches that a tf.distribute strategy has cut, and abreast cuts batches, too",
            "pass fit the data set itself, not what experimental_distribute_dataset made of it",
        )
    if isinstance(leaf, tf.RaggedTensor):
        raise not_dense(leaf)
    return leaf


def _to_the_end(adapter: Any, batches: Any) -> Iterator[Any]:
    """An epoch of a source. A `DataLoader` is read to its end, as in plain Keras: its sampler draws once more there."""
    batches = iter(batches)
    for number, batch in enumerate(batches, start=1):
        if isinstance(adapter, TorchDataLoaderAdapter) and number == adapter.num_batches:
            next(batches, None)
        yield batch


def _announce_end(model: Any) -> None:
    """Warn, once per model, of the step that plain Keras counts where a source ends whose length it does not know."""
    if model.optimizer is not None and not model.run_eagerly:
        exact.warn_once(
            model,
            "unknown length",
            f"the length of the data source of {model.name} is unknown: at the end of each epoch, plain Keras on TensorFlow adds "
            "1 to optimizer.iterations without a step, which Adam and schedules of the learning rate read. abreast counts steps, "
            "as the other backends do",
        )


BACKEND = TensorFlowBackend()
