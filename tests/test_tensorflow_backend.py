"""Possible faults of the TensorFlow backend only: traces, several strategies, replicas that take turns, staying off GPUs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abreast.backend.tensorflow.guard import keep_off_gpus
from tests.harness.client import RemoteError, Worker
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    skip_unless_installed("tensorflow")
    worker = Worker("tensorflow", 4)
    yield worker
    assert not worker.close()


pytestmark = pytest.mark.tensorflow


def model_and_data(rows: int = 50, **compile_options: Any) -> tuple[Any, Any, Any]:
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, use_bias=False), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    options = {"optimizer": keras.optimizers.SGD(0.1), "loss": "mse", "metrics": ["mae"], **compile_options}
    model.compile(**options)
    random = np.random.default_rng(0)
    return model, random.normal(size=(rows, 6)).astype("float32"), random.normal(size=(rows, 3)).astype("float32")


@pytest.mark.in_turn
def test_a_large_variable_that_is_as_it_was_is_not_read_whole(worker: Worker) -> None:
    before, held, other, assigned, small = worker.run(checksums_of_variables)
    assert held != before and other == held  # another number that is not among those that are looked at
    assert assigned not in (before, held)
    assert small[0] == small[1] != small[2]


def checksums_of_variables() -> tuple[Any, ...]:
    import keras
    import numpy as np
    import tensorflow as tf

    from abreast.backend.tensorflow.unchanged import HeldValues

    numbers = np.arange(40_000, dtype="float32").reshape(200, 200)
    one, other, small = keras.Variable(numbers), keras.Variable(numbers), keras.Variable(numbers[:3])
    values = HeldValues()
    before = values.digest(one)
    other.value.assign(tf.tensor_scatter_nd_update(numbers, [[0, 1]], [5.0]))
    values.hold([one, other, small])
    held = [values.digest(each) for each in (one, other, small)]
    one.value.assign(tf.tensor_scatter_nd_update(numbers, [[0, 1]], [5.0]))  # TensorFlow's own
    small.assign_add(small)
    after = [values.digest(each) for each in (one, other, small)]
    values.forget()
    assert (values.digest(one), values.digest(other)) == (after[0], after[0])
    return before, held[0], held[1], after[0], (held[2], HeldValues().digest(keras.Variable(numbers[:3])), after[2])


def test_the_parts_of_arrays_that_processes_read_are_what_one_process_reads(worker: Worker) -> None:
    whole, joined, num_read = worker.run(parts_of_arrays)
    assert joined == whole
    assert num_read == [2 * (6 + 6 + 4 + 32)] * 2  # of batches of 12, 12 and 8 rows: half, and those that all compare


def parts_of_arrays() -> tuple[Any, Any, list[int]]:
    from contextlib import nullcontext

    import keras
    import numpy as np

    from abreast.backend.contract import Placement
    from abreast.backend.registry import current_backend
    from abreast.keras_private.data_adapters import registry
    from abreast.shares import Shares

    class Counting(np.ndarray[Any, Any]):
        def __getitem__(self, places: Any) -> Any:
            rows = super().__getitem__(places)
            read[0] += len(rows) if isinstance(places, np.ndarray) else 0
            return rows

    def epochs(rank: int | None) -> list[Any]:
        y[0] = 0
        keras.utils.set_random_seed(3)
        adapter = registry.get_data_adapter(x.view(Counting), y=y, batch_size=12, shuffle=True)
        job = SimpleNamespace(
            agree_on_order=lambda: None,
            seeds_of_rank_0=nullcontext,
            own_rows=lambda rows: Shares(rows, (1, 1)).rows_of(rank or 0),
        )
        backend._launched = None if rank is None else job
        epoch = backend.source(adapter, Placement(backend, backend.device_names()[:2]))
        y[0] = 7  # as in Keras's own pipeline, nobody sees this
        return [[each.data if rank is not None else each for each in epoch()] for _ in range(2)]

    backend: Any = current_backend()
    read = [0]
    x, y = np.arange(64.0, dtype="float32").reshape(32, 2), np.arange(32.0, dtype="float32")
    x.flags.writeable = False
    try:
        whole = epochs(None)
        parts, num_read = [], []
        for rank in range(2):
            read[0] = 0
            parts.append(epochs(rank))
            num_read.append(read[0])
    finally:
        backend._launched = None
    joined = [
        [[np.concatenate(leaves).tolist() for leaves in zip(*ranks, strict=True)] for ranks in zip(*both, strict=True)]
        for both in zip(*parts, strict=True)
    ]
    return [[[np.asarray(leaf).tolist() for leaf in batch] for batch in each] for each in whole], joined, num_read


def test_sparse_gradients_go_to_other_processes_once_for_all_devices_of_a_process(worker: Worker) -> None:
    """Processes with other numbers of devices would make other numbers of exchanges."""
    # First whether all look up the same, because operations run at once here; then values and indices.
    assert worker.run(exchanges_of_sparse_gradients) == [1, 1, "rows", "rows", "rows"]


def exchanges_of_sparse_gradients() -> list[Any]:
    import tensorflow as tf

    from abreast.backend.tensorflow.reduce import Reducer

    class Processes:
        def __init__(self) -> None:
            self.exchanged: list[str] = []

        def rows(self, tensor: Any) -> Any:
            self.exchanged.append("rows")
            return tensor

    processes: Any = Processes()
    reducer = Reducer(("/CPU:0", "/CPU:1"), processes)
    sums = reducer.sum_gradients([[tf.IndexedSlices(tf.ones((1, 2)), tf.constant([place]))] for place in (3, 4)])
    return [*(len(row) for row in sums), *processes.exchanged]


@pytest.mark.in_turn
def test_batches_of_any_number_of_rows_share_one_trace(worker: Worker) -> None:
    assert worker.run(traces_of_a_ragged_fit) == {"train": 1, "test": 1, "predict": 1}


def traces_of_a_ragged_fit() -> dict[str, int]:
    import abreast

    with counted_programs() as programs:
        model, x, y = model_and_data()
        abreast.parallelize(model, devices=4)
        model.fit(x, y, batch_size=16, epochs=3, validation_data=(x[:5], y[:5]), verbose=0)
        model.fit(x[:7], y[:7], verbose=0)
        model.predict(x, batch_size=7, verbose=0)
    return {program.kind: program.num_traces for program in programs}


def test_sums_are_added_up_in_one_order(worker: Worker) -> None:
    assert worker.run(sums_of_columns) == [1.0]


def sums_of_columns() -> list[float]:
    """The sums of 1, e, e and 0, of which only the order decides whether they are more than 1."""
    import numpy as np
    import tensorflow as tf

    from abreast.backend.tensorflow.reduce import Reducer

    devices = tuple(f"/CPU:{index}" for index in range(4))
    e = float(np.finfo("float32").eps / 2)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step(zeros: Any) -> Any:
        rows = []
        for device, value in zip(devices, (1.0, e, e, 0.0), strict=True):
            with tf.device(device):
                rows.append([tf.sin(zeros[index]) + np.float32(value) for index in range(8)])
        return tf.concat(Reducer(devices).sum_gradients(rows)[0], axis=0)

    return sorted({float(value) for _ in range(20) for value in step(tf.zeros((8, 100))).numpy()})


def test_batches_of_one_row_share_one_trace(worker: Worker) -> None:
    """They show no relation between rows, so that the look at rows stays due."""
    assert worker.run(traces_of_single_rows) == [1]


def traces_of_single_rows() -> list[int]:
    import abreast

    with counted_programs() as programs:
        model, x, y = model_and_data()
        abreast.parallelize(model, devices=4)
        model.fit(x[:5], y[:5], batch_size=1, verbose=0)
    return [program.num_traces for program in programs]


def test_a_step_of_one_device_has_no_more_operations_than_that_of_plain_keras(worker: Worker) -> None:
    plain, placed = worker.run(numbers_of_operations)
    assert max(placed) <= plain


def numbers_of_operations() -> tuple[int, list[int]]:
    """The operations of plain Keras's step, and those of each trace of ours: for a known number of rows, and for any."""
    import tensorflow as tf

    import abreast

    model, x, y = model_and_data(rows=40)
    step = tf.function(lambda x, y: model.train_step((x, y)), autograph=False)
    plain = step.get_concrete_function(tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None, 3), tf.float32))
    with counted_programs() as programs:
        for rows in (32, 40):
            model, x, y = model_and_data(rows)
            abreast.parallelize(model, devices=1)
            model.fit(x, y, batch_size=16, verbose=0)
    placed = [function.graph for program in programs for _, function in program._traces.values()]
    return len(plain.graph.get_operations()), [len(graph.get_operations()) for graph in placed]


@contextmanager
def counted_programs() -> Iterator[list[Any]]:
    """The programs made in the block."""
    from abreast.backend.tensorflow import step as tensorflow_step

    programs: list[Any] = []
    plain = tensorflow_step.Program.__init__

    def init(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        programs.append(self)

    tensorflow_step.Program.__init__ = init  # type: ignore[assignment,method-assign]
    try:
        yield programs
    finally:
        tensorflow_step.Program.__init__ = plain  # type: ignore[method-assign]


@pytest.mark.parametrize("source", ["generator", "data set", "tf.data"])
def test_batches_of_any_length_share_one_trace(worker: Worker, source: str) -> None:
    """As with plain Keras, which takes the shapes of a source's first two batches, or of its specs, before the first step."""
    assert worker.run(traces_of_lengths, source=source) == [1]


def traces_of_lengths(source: str) -> list[int]:
    import keras
    import numpy as np
    import tensorflow as tf

    import abreast

    def rows(index: int) -> Any:
        return np.zeros((8, 5 + index, 2), "float32"), np.zeros((8, 1), "float32")

    class Rows(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return rows(index)

    specs = (tf.TensorSpec((None, None, 2)), tf.TensorSpec((None, 1)))
    sources: dict[str, Any] = {
        "generator": lambda: (rows(index) for index in range(8)),
        "data set": Rows,
        "tf.data": lambda: tf.data.Dataset.from_generator(lambda: map(rows, range(8)), output_signature=specs),
    }
    with counted_programs() as programs:
        layers = [keras.Input((None, 2)), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        model.compile("sgd", "mse")
        abreast.parallelize(model, devices=4)
        model.fit(sources[source](), shuffle=False, verbose=0)
    return [program.num_traces for program in programs]


def test_each_device_gets_its_shard_only(worker: Worker) -> None:
    shards = worker.run(staged_shards)
    assert shards == [(f"CPU:{index}", rows) for index, rows in enumerate((13, 13, 12, 12))]


def staged_shards() -> list[tuple[str, int]]:
    import abreast
    from abreast.backend.tensorflow.staging import put_shards
    from abreast.feed import HostBatch

    _, x, y = model_and_data()
    staged = put_shards(HostBatch.of((x, y)), abreast.DataParallel(4).placement)
    return [(tensors[0].device.rpartition("device:")[2], len(tensors[0])) for tensors in staged.shards]


@pytest.mark.in_turn
def test_a_model_moves_between_numbers_of_devices_in_one_process(worker: Worker) -> None:
    assert worker.run(largest_difference_after_moves) < 1e-5  # measured 4e-7


def largest_difference_after_moves() -> float:
    import keras

    import abreast

    (plain, x, y), (moved, _, _) = model_and_data(optimizer="adam"), model_and_data(optimizer="adam")
    for devices in (2, 4, 3, 1):
        abreast.parallelize(moved, devices=devices)
        for model in (plain, moved):
            model.fit(x, y, batch_size=16, verbose=0)
    both = [[*model.variables, *model.optimizer.variables] for model in (plain, moved)]
    return largest_difference(*([keras.ops.convert_to_numpy(each) for each in variables] for variables in both))


def test_accumulated_gradients_survive_a_save(worker: Worker) -> None:
    assert worker.run(accumulated_gradients_of_one_and_of_three_devices) < 1e-6  # measured 4e-8


def accumulated_gradients_of_one_and_of_three_devices() -> float:
    import keras
    import numpy as np

    import abreast

    states = []
    for devices in (1, 3):
        model, x, y = model_and_data(optimizer=keras.optimizers.SGD(0.1, gradient_accumulation_steps=3))
        abreast.parallelize(model, devices=devices).fit(x[:32], y[:32], batch_size=16, verbose=0)  # 2 of 3 steps
        states.append(np.concatenate([np.ravel(variable.numpy()) for variable in model.optimizer.variables]))
    assert np.any(states[0][2:] != 0)
    return float(np.max(np.abs(states[0] - states[1])))


def test_dropout_differs_between_replicas_and_its_state_does_not(worker: Worker) -> None:
    assert worker.run(distinct_dropouts) == (4, 1)


def distinct_dropouts() -> tuple[int, int]:
    import keras
    import numpy as np

    import abreast
    from abreast.backend.tensorflow.backend import BACKEND

    class Drop(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.drop = keras.layers.Dropout(0.5, seed=1)

        def call(self, x: Any) -> Any:
            return self.drop(x, training=True)

    model = abreast.parallelize(Drop(), devices=4)
    outputs = model.predict(np.ones((8, 64), "float32"), verbose=0)
    copies = BACKEND._variables[model].copies(model.drop.seed_generator.state)
    return len({outputs[2 * i : 2 * i + 2].tobytes() for i in range(4)}), len({tuple(copy.numpy()) for copy in copies})


def test_local_batch_norm_gives_finite_weights_with_fewer_rows_than_devices(worker: Worker) -> None:
    assert worker.run(local_weights_are_finite)


def local_weights_are_finite() -> bool:
    import numpy as np

    import abreast

    model, x, y = model_and_data(rows=34)
    abreast.parallelize(model, devices=4, batch_norm="local").fit(x, y, batch_size=16, epochs=2, verbose=0)  # 16, 16, 2
    return all(np.isfinite(weight).all() for weight in model.get_weights())


def test_jit_compile_on_several_devices_is_ignored_with_one_warning(worker: Worker) -> None:
    said = worker.run(warnings_of_a_compiled_fit)
    assert said == ["jit_compile=True is ignored: XLA compiles programs of one device, and this model trains on 2"]


def warnings_of_a_compiled_fit() -> list[str]:
    import abreast

    model, x, y = model_and_data(jit_compile=True)
    abreast.parallelize(model, devices=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y, verbose=0, validation_data=(x, y))
        model.fit(x, y, verbose=0)
    return [str(warning.message) for warning in caught if "jit_compile" in str(warning.message)]


def test_uneven_shards_of_an_own_train_step_are_announced(worker: Worker) -> None:
    (said,) = worker.run(warnings_of_an_own_step)
    assert said.startswith("Own has its own train_step, and a batch of 5 rows is cut into shards of 2, 1, 1, 1")


def warnings_of_an_own_step() -> list[str]:
    import keras

    import abreast

    class Own(keras.Sequential):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    _, x, y = model_and_data(rows=5)
    model = Own([keras.Input((6,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y, epochs=2, verbose=0)
    return [str(warning.message) for warning in caught if "train_step" in str(warning.message)]


def test_ragged_tensors_are_refused(worker: Worker) -> None:
    with pytest.raises(RemoteError, match="RaggedTensor, which cannot be cut into shards\nhint: make it dense"):
        worker.run(fit_ragged)


def fit_ragged() -> None:
    import tensorflow as tf

    import abreast

    model, _, _ = model_and_data()
    dataset = tf.data.Dataset.from_tensors(tf.ragged.constant([[1.0], [2.0, 3.0]]))
    abreast.parallelize(model, devices=2).fit(dataset, verbose=0)


def test_tensorflow_is_kept_off_gpus_when_it_is_imported_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorflow.py").write_text(
        "class config:\n    hidden = []\n    @classmethod\n"
        "    def set_visible_devices(cls, devices, kind):\n        cls.hidden.append((devices, kind))\n"
    )
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    keep_off_gpus()
    keep_off_gpus()
    import tensorflow

    assert tensorflow.config.hidden == [([], "GPU")]
    monkeypatch.delitem(sys.modules, "tensorflow")


def test_imported_tensorflow_is_kept_off_gpus_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = []
    config = SimpleNamespace(set_visible_devices=lambda devices, kind: hidden.append((devices, kind)))
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    keep_off_gpus()
    assert hidden == [([], "GPU")]


def test_what_a_layer_writes_to_tf_summary_is_written_and_announced_once(worker: Worker, tmp_path: Path) -> None:
    num_written, announced = worker.run(summaries_of_a_layer, folder=str(tmp_path))
    assert num_written == 3  # one per step
    assert len(announced) == 1
    assert "the first device's rows" in announced[0]


def summaries_of_a_layer(folder: str) -> tuple[int, list[str]]:
    import keras
    import tensorflow as tf

    import abreast

    class Writes(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            tf.summary.scalar("mean", tf.reduce_mean(x))
            return x

    model, x, y = model_and_data(rows=24)
    model = keras.Sequential([keras.Input((6,)), Writes(), keras.layers.Dense(3)])
    model.compile("sgd", "mse", jit_compile=False)
    abreast.parallelize(model, devices=4)
    with warnings.catch_warnings(record=True) as caught, tf.summary.create_file_writer(folder).as_default(step=0):
        warnings.simplefilter("always")
        model.fit(x, y, batch_size=8, verbose=0)
    events = [event for file in Path(folder).iterdir() for event in tf.compat.v1.train.summary_iterator(str(file))]
    told = [str(warning.message) for warning in caught if "tf.summary" in str(warning.message)]
    return sum(len(event.summary.value) for event in events), told


def test_a_strategy_of_tf_distribute_is_refused_by_name(worker: Worker) -> None:
    for job in (made_under_a_strategy, trained_under_a_strategy):
        with pytest.raises(RemoteError, match=r"belongs to a tf\.distribute") as caught:
            worker.run(job)
        assert "ModelError" in caught.value.kinds


def made_under_a_strategy() -> None:
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"]).scope():
        model = placed_model()
    fit(model)


def trained_under_a_strategy() -> None:
    import tensorflow as tf

    model = placed_model()
    with tf.distribute.OneDeviceStrategy("/CPU:0").scope():
        fit(model)


def placed_model() -> Any:
    import keras

    import abreast

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return abreast.parallelize(model, devices=2)


def fit(model: Any) -> None:
    import numpy as np

    model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0)


def test_a_replica_that_stands_still_is_named_with_its_line(worker: Worker) -> None:
    """Code that holds a lock over BatchNormalization: the next replica waits for the lock, and the first for the next one."""
    told, losses = worker.run(lines_about_a_held_lock)
    (line,) = [each for each in told if "a replica has waited for 0.2 s at " in each]
    assert "test_tensorflow_backend.py:" in line and "If it waits for a lock, another replica holds it" in line
    assert losses == 1  # here the lock has a limit


def lines_about_a_held_lock() -> tuple[list[str], int]:
    import threading

    import keras

    import abreast
    from abreast.backend.tensorflow import turns
    from abreast.replacing import replaced

    class Locking(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__()
            self.normalization, self.lock = keras.layers.BatchNormalization(), threading.Lock()

        def call(self, x: Any, training: bool = False) -> Any:
            is_held = self.lock.acquire(timeout=1)
            try:
                return self.normalization(x, training=training)
            finally:
                if is_held:
                    self.lock.release()

    _, x, y = model_and_data(rows=8)
    model = keras.Sequential([keras.Input((6,)), Locking(), keras.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=True)
    abreast.parallelize(model, devices=2)
    with _told() as told, replaced(turns, "_STILL_SECONDS", 0.2):
        history = model.fit(x, y, batch_size=8, verbose=0).history
    return told, len(history["loss"])


def test_python_code_that_runs_once_per_replica_is_said_once(worker: Worker) -> None:
    told = worker.run(lines_about_effects)
    assert [each for each in told if each.startswith("each of ")] == [
        "each of 2 devices runs the Python code of Printing, Net.train_step, and so does the row check: prints, files and other "
        "effects outside of the model come more often than on one device"
    ]


def lines_about_effects() -> list[str]:
    import keras

    import abreast

    class Printing(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * 2

    class Net(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    _, x, y = model_and_data(rows=8)
    inputs = keras.Input((6,))
    model = Net(inputs, keras.layers.Dense(3)(Printing()(inputs)))
    model.compile("sgd", "mse", run_eagerly=True)
    abreast.parallelize(model, devices=2)
    with _told() as told:
        model.fit(x, y, batch_size=4, epochs=2, verbose=0)
        model.fit(x, y, batch_size=4, verbose=0)
    return told


@contextmanager
def _told() -> Iterator[list[str]]:
    """Inside, the lines of abreast's logger."""
    import logging

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("abreast").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("abreast").removeHandler(handler)
