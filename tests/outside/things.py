"""Uses of a model outside of `fit`, one function each: with plain Keras and placed, the results must be equal.

A function takes the task, and may return numbers to compare. Loaded by workers only.
"""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

BACKEND = keras.backend.backend()


@dataclass
class Task:
    model: Any
    x: Any
    y: Any


Thing = Callable[[Task], Any]
THINGS: dict[str, Thing] = {}


def thing(function: Thing) -> Thing:
    THINGS[function.__name__] = function
    return function


def only(backend: str) -> Callable[[Thing], Thing]:
    return thing if backend == BACKEND else lambda function: function


def _loss(model: Any, x: Any, y: Any) -> Any:
    return ops.mean(ops.square(model(x, training=True) - y))


@only("tensorflow")
def gradient_tape(task: Task) -> None:
    import tensorflow as tf

    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = _loss(task.model, tf.constant(task.x), tf.constant(task.y))
        gradients = tape.gradient(loss, task.model.trainable_variables)
        task.model.optimizer.apply(gradients, task.model.trainable_variables)


@only("tensorflow")
def gradient_tape_in_a_function(task: Task) -> None:
    import tensorflow as tf

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = _loss(task.model, x, y)
        gradients = tape.gradient(loss, task.model.trainable_weights)
        task.model.optimizer.apply_gradients(zip(gradients, task.model.trainable_weights, strict=True))
        return loss

    for _ in range(3):
        step(tf.constant(task.x), tf.constant(task.y))


@only("tensorflow")
def raw_variables(task: Task) -> Any:
    import tensorflow as tf

    for variable in task.model.trainable_variables:
        assert isinstance(variable.value, tf.Variable)
        variable.value.assign_add(tf.ones_like(variable.value) * 0.01)
    return [variable.value.numpy() for variable in task.model.variables]


@only("tensorflow")
def tf_checkpoint(task: Task) -> None:
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = tf.train.Checkpoint(model=task.model, optimizer=task.model.optimizer)
        path = checkpoint.save(os.path.join(folder, "c"))
        task.model.set_weights([weights * 0 for weights in task.model.get_weights()])
        checkpoint.restore(path).assert_existing_objects_matched()


@only("tensorflow")
def saved_model(task: Task) -> Any:
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        task.model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
        return loaded.serve(tf.constant(task.x)).numpy()


@only("torch")
def torch_loop(task: Task) -> None:
    import torch

    x, y = torch.from_numpy(task.x), torch.from_numpy(task.y)
    for _ in range(3):
        task.model.zero_grad()
        _loss(task.model, x, y).backward()
        trainable = task.model.trainable_weights
        with torch.no_grad():
            task.model.optimizer.apply([weight.value.grad for weight in trainable], trainable)


@only("torch")
def torch_optimizer(task: Task) -> None:
    import torch

    optimizer = torch.optim.SGD(task.model.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        _loss(task.model, torch.from_numpy(task.x), torch.from_numpy(task.y)).backward()
        optimizer.step()


@only("torch")
def state_dict(task: Task) -> Any:
    state = copy.deepcopy(task.model.state_dict())
    task.model.set_weights([weights * 0 for weights in task.model.get_weights()])
    task.model.load_state_dict(state)
    return [tensor.numpy() for tensor in state.values()]


@only("jax")
def stateless_loop(task: Task) -> None:
    import jax

    model = task.model
    trainable = [variable.value for variable in model.trainable_variables]
    fixed = [variable.value for variable in model.non_trainable_variables]
    slots = [variable.value for variable in model.optimizer.variables]

    def loss_of(trainable: Any, fixed: Any) -> Any:
        outputs, fixed = model.stateless_call(trainable, fixed, task.x, training=True)
        return ops.mean(ops.square(outputs - task.y)), fixed

    for _ in range(3):
        (_, fixed), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, fixed)
        trainable, slots = model.optimizer.stateless_apply(slots, gradients, trainable)
    for variables, values in (
        (model.trainable_variables, trainable),
        (model.non_trainable_variables, fixed),
        (model.optimizer.variables, slots),
    ):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


@only("jax")
def jitted_call(task: Task) -> Any:
    import jax

    trainable = [variable.value for variable in task.model.trainable_variables]
    fixed = [variable.value for variable in task.model.non_trainable_variables]
    return np.asarray(jax.jit(lambda a, b, x: task.model.stateless_call(a, b, x)[0])(trainable, fixed, task.x))


@thing
def get_and_set_weights(task: Task) -> Any:
    weights = task.model.get_weights()
    task.model.set_weights([each * 0.9 for each in weights])
    return weights


@thing
def assign(task: Task) -> None:
    for variable in task.model.trainable_variables:
        variable.assign(variable * 0.5)
        variable.assign_add(ops.ones(variable.shape) * 0.01)


@thing
def read_variables(task: Task) -> Any:
    model = task.model
    return [
        np.asarray(variable) for variable in (*model.variables, *model.optimizer.variables, *model.metrics_variables)
    ]


@thing
def metrics_between(task: Task) -> Any:
    before = task.model.get_metrics_result()
    task.model.reset_metrics()
    return [before, task.model.get_metrics_result()]


@thing
def learning_rate(task: Task) -> Any:
    task.model.optimizer.learning_rate = 0.02
    first = float(task.model.optimizer.learning_rate)
    task.model.optimizer.learning_rate.assign(0.01)
    return [
        first,
        float(keras.ops.convert_to_numpy(task.model.optimizer.learning_rate)),
        int(task.model.optimizer.iterations),
    ]


@thing
def call(task: Task) -> Any:
    return [np.asarray(ops.convert_to_numpy(task.model(task.x, training=flag))) for flag in (False, True)]


@thing
def summary(task: Task) -> str:
    lines: list[str] = []
    task.model.summary(print_fn=lambda line, **_: lines.append(line))
    return "\n".join(lines)


@thing
def save_and_load(task: Task) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        task.model.save(path)
        loaded = keras.models.load_model(path)
    slots = [np.asarray(ops.convert_to_numpy(variable)) for variable in loaded.optimizer.variables]
    return [loaded.get_weights(), slots, loaded.predict(task.x, verbose=0)]


@thing
def save_and_load_weights(task: Task) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.weights.h5")
        task.model.save_weights(path)
        task.model.set_weights([each * 0 for each in task.model.get_weights()])
        task.model.load_weights(path)


@thing
def pickled(task: Task) -> Any:
    return pickle.loads(pickle.dumps(task.model)).get_weights()


@thing
def deep_copy(task: Task) -> Any:
    other = copy.deepcopy(task.model)
    other.set_weights([each * 0 for each in other.get_weights()])
    return task.model.get_weights()


@thing
def clone(task: Task) -> Any:
    other = keras.models.clone_model(task.model)
    other.set_weights(task.model.get_weights())
    return other.predict(task.x, verbose=0)


@thing
def part_of_the_model(task: Task) -> Any:
    part = keras.Model(task.model.inputs, task.model.layers[1].output)
    return part.predict(task.x, verbose=0)


@thing
def quantize_a_copy(task: Task) -> Any:
    other = keras.models.clone_model(task.model)
    other.set_weights(task.model.get_weights())
    other.quantize("int8")
    return other.predict(task.x, verbose=0)


@thing
def freeze_and_compile(task: Task) -> None:
    task.model.layers[0].trainable = False
    task.model.compile("adam", "mse", metrics=["mae"])


@thing
def compile_anew(task: Task) -> None:
    task.model.compile(keras.optimizers.SGD(0.05, momentum=0.9, use_ema=True), "mae", metrics=["mse"])


@thing
def apply_optimizer(task: Task) -> None:
    trainable = task.model.trainable_variables
    task.model.optimizer.apply([ops.ones(variable.shape) for variable in trainable], trainable)


@thing
def another_model_of_the_layers(task: Task) -> Any:
    other = keras.Sequential([keras.Input((6,)), *task.model.layers])
    other.compile("sgd", "mse")
    return other.fit(task.x, task.y, batch_size=16, verbose=0).history["loss"]


@thing
def on_batches(task: Task) -> Any:
    model, x, y = task.model, task.x, task.y
    return [
        model.train_on_batch(x[:10], y[:10]),
        model.test_on_batch(x[:7], y[:7]),
        model.predict_on_batch(x[:5]),
        model.train_on_batch(x[:9], y[:9]),
    ]


@thing
def evaluate_and_predict(task: Task) -> Any:
    return [task.model.evaluate(task.x, task.y, verbose=0), task.model.predict(task.x, verbose=0)]


@thing
def seeds(task: Task) -> Any:
    keras.utils.set_random_seed(7)
    return np.asarray(ops.convert_to_numpy(keras.random.normal((3,))))


@thing
def optimizer_state(task: Task) -> None:
    store: dict[str, Any] = {}
    task.model.optimizer.save_own_variables(store)
    store = {name: np.array(value) for name, value in store.items()}
    task.model.optimizer.load_own_variables(store)


@thing
def config(task: Task) -> str:
    return str(task.model.to_json())


def _model(optimizer: Any) -> Any:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(5, activation="tanh"),
            layers.BatchNormalization(),
            layers.Dense(2),
        ]
    )
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "accumulating": lambda: keras.optimizers.SGD(0.05, momentum=0.9, gradient_accumulation_steps=4),
}


def names() -> list[str]:
    return sorted(THINGS)


def numbers(name: str, moment: str, optimizer: str, devices: int) -> list[Any]:
    """The result of a job with this use in it. `moment`: "before", "between" or "callback"; 0 devices are plain Keras."""
    keras.utils.set_random_seed(3)
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 6)).astype("float32")
    task = Task(_model(OPTIMIZERS[optimizer]()), x, np.sin(x[:, :2]) * 0.5)
    if devices:
        import abreast

        abreast.parallelize(task.model, devices=devices)
    results: list[Any] = []

    class InEpochs(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 0:
                results.append(THINGS[name](task))

    if moment == "before":
        task.model.build((None, 6))
        task.model.optimizer.build(task.model.trainable_variables)
        results.append(THINGS[name](task))
    _fit(task, [InEpochs()] if moment == "callback" else [], results)
    if moment == "between":
        results.append(THINGS[name](task))
        _fit(task, [], results)
    results.append(task.model.evaluate(x, task.y, verbose=0))
    results.append(THINGS[name](task))
    results.append(read_variables(task))
    return _flat(results)


def _fit(task: Task, callbacks: list[Any], results: list[Any]) -> None:
    history = task.model.fit(
        task.x, task.y, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=callbacks, validation_split=0.2
    )
    results.append(list(history.history.values()))


def _flat(results: Any) -> list[Any]:
    return [
        leaf if isinstance(leaf, str) else np.asarray(leaf) for leaf in keras.tree.flatten(results) if leaf is not None
    ]
