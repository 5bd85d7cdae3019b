"""Scripts with planted differences on devices: what differs, where first, and why.

If abreast makes a thing equal or refuses it, the script breaks it itself, on both sides: plain Keras does not notice.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

BEGIN = """
    import sys
    sys.path.append(ROOT)
    import keras
    import numpy as np
    rows = np.random.default_rng(0)
    x, y = rows.normal(size=(64, 6)).astype("float32"), rows.normal(size=(64, 1)).astype("float32")
    keras.utils.set_random_seed(1)
    layers = keras.layers

    def without_row_check():
        import abreast.placed_models
        if abreast.placed_models._default is not None:
            object.__setattr__(abreast.placed_models._default, "check_rows", False)

    def compiled(*inner, optimizer="sgd", **settings):
        model = keras.Sequential([keras.Input((6,)), *inner, layers.Dense(1, name="last")])
        model.compile(optimizer, **{"loss": "mse"} | settings)
        return model

    class Model(keras.Model):
        def __init__(self):
            super().__init__(name="model")
            self.hidden, self.last = layers.Dense(5, name="hidden"), layers.Dense(1, name="last")

        def call(self, x):
            return self.last(self.hidden(x))
"""


AHEAD = ("--prefetch", "2")  # by hand: what a source could see is read ahead all the same


@dataclass(frozen=True)
class Planted:
    """`step`: of the first difference, 0 before the first. `variable`: one that is named there, as part of its path."""

    name: str
    kind: str
    backend: str
    script: str
    step: int
    variable: str
    reason: str
    options: tuple[str, ...] = ()

    @property
    def steps(self) -> Sequence[int]:
        """The possible places of the first difference: how far a source is read ahead depends on timing."""
        return range(2, self.step + 2) if self.options == AHEAD else (self.step,)

    def text(self, root: str) -> str:
        return text(self.script, root)


def text(script: str, root: str) -> str:
    """The whole script, which finds these tests in `root`."""
    return textwrap.dedent(BEGIN).replace("ROOT", repr(root)) + textwrap.dedent(script)


BATCH_NORM = """
    model = compiled(layers.Dense(8), layers.BatchNormalization(name="norm"))
    model.fit(x + 3 * np.arange(64)[:, None] / 64, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
"""
SCOPED_NORM = """
    import abreast
    with abreast.DataParallel(batch_norm="local"):
        model = compiled(layers.BatchNormalization(name="norm"))
    model.fit(x, y, batch_size=16, epochs=2, verbose=0)
"""
DROPOUT = """
    model = compiled(layers.Dense(16, activation="relu"), layers.Dropout(0.4, name="drop"))
    model.fit(x, y, batch_size=16, epochs=2, verbose=0)
"""
NOISE = """
    model = compiled(layers.GaussianNoise(0.5, name="noise"))
    model.fit(x, y, batch_size=16, epochs=2, verbose=0)
"""
GENERATOR_DRAWS = """
    class Draws(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            np.random.rand()

    def batches():
        while True:
            chosen = np.random.randint(0, 64, 16)
            yield x[chosen], y[chosen]

    compiled().fit(batches(), steps_per_epoch=12, callbacks=[Draws()], verbose=0)
"""
SHARED_STATE = """
    scale = [1.0]

    class Grows(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            scale[0] += 1.0

    class Scaled(keras.utils.PyDataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return x[8 * index : 8 * index + 8] * scale[0], y[8 * index : 8 * index + 8]

    compiled(optimizer=keras.optimizers.SGD(1e-4)).fit(Scaled(), callbacks=[Grows()], shuffle=False, verbose=0)
"""
CENTERED = """
    without_row_check()
    class Centered(layers.Layer):
        def call(self, x):
            return x - keras.ops.mean(x, axis=0, keepdims=True)

    model = compiled(Centered(name="centered"))
    model.fit(x + np.arange(64)[:, None] / 16, y, batch_size=16, shuffle=False, verbose=0)
"""
CONTRACTED = """
    without_row_check()
    inputs = keras.Input((6,))
    hidden = layers.Dense(4, name="hidden")(inputs)
    dots = layers.Lambda(lambda h: h @ keras.ops.transpose(h) @ h, name="dots")(hidden)
    model = keras.Model(inputs, layers.Dense(1, name="last")(dots))
    model.compile(keras.optimizers.SGD(1e-4), "mse")
    model.fit(x, y, batch_size=16, verbose=0)
"""
ADDED_SUM = """
    without_row_check()
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(0.01 * keras.ops.sum(keras.ops.square(x)))
            return x

    model = compiled(layers.Dense(5, name="hidden"), Penalty(name="penalty"))
    model.fit(x, y, batch_size=16, verbose=0)
"""
OWN_STEP_TENSORFLOW = """
    import tensorflow as tf

    class Sums(Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(self(x, training=True) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"own": loss}

    model = Sums()
    model.compile(keras.optimizers.SGD(1e-3))
    model.fit(x, y, batch_size=16, verbose=0)
"""
OWN_STEP_TORCH = """
    import torch

    class Sums(Model):
        def train_step(self, data):
            x, y = data
            self.zero_grad()
            loss = torch.sum(torch.square(self(x, training=True) - y))
            loss.backward()
            with torch.no_grad():
                self.optimizer.apply([v.value.grad for v in self.trainable_variables], self.trainable_variables)
            return {"own": loss}

    model = Sums()
    model.compile(keras.optimizers.SGD(1e-3))
    model.fit(x, y, batch_size=16, verbose=0)
"""
CLOCK = """
    import time
    keras.utils.set_random_seed(time.time_ns() % 2**31)
    compiled(layers.Dense(8)).fit(x, y, batch_size=16, verbose=0)
"""
UNSEEDED = """
    y = np.random.default_rng().normal(size=(64, 1))
    compiled(layers.Dense(8)).fit(x, y, batch_size=16, verbose=0)
"""
LEFT_FILE = """
    import os
    model = compiled()
    if os.path.exists("left.weights.h5"):
        model.load_weights("left.weights.h5")
    model.fit(x, y, batch_size=16, verbose=0)
    model.save_weights("left.weights.h5")
"""
CUT_JAX = """
    from tests.contract.sabotage import _cut_in_jax
    with _cut_in_jax():
        compiled(layers.Dense(8, name="hidden")).fit(x, y, batch_size=16, verbose=0)
"""
CUT_TENSORFLOW = """
    from tests.contract.sabotage import _cut_in_tensorflow
    with _cut_in_tensorflow():
        compiled(layers.Dense(8, name="hidden")).fit(x, y, batch_size=16, verbose=0)
"""
CUT_TORCH = CUT_TENSORFLOW.replace("tensorflow", "torch")
LAYER_STATE = """
    without_row_check()
    class Counts(layers.Layer):
        def build(self, shape):
            self.seen = self.add_weight(name="seen", shape=(), initializer="zeros", trainable=False)

        def call(self, x, training=False):
            if training:
                self.seen.assign(self.seen + keras.ops.sum(keras.ops.abs(x)))
            return x

    model = compiled(Counts(name="counts"))
    model.fit(x, y, batch_size=16, verbose=0)
"""
LEARNING_RATE = """
    import abreast
    model = compiled(optimizer=keras.optimizers.SGD(0.01 * len(abreast.devices())))
    model.fit(x, y, batch_size=16, verbose=0)
"""
STEPS_BY_DEVICES = """
    import abreast
    model = compiled()
    model.fit(x, y, batch_size=16 * len(abreast.devices()), verbose=0)
"""
READ_TWICE = """
    from abreast.feed import pipeline
    take, kept = pipeline.BatchPipeline.take, []

    def take_twice(self):
        kept.append(take(self))
        return pipeline.Taken(kept[-1 if len(kept) < 3 else -2].host, None)

    pipeline.BatchPipeline.take = take_twice
    compiled(layers.Dense(8, name="hidden")).fit(x, y, batch_size=8, shuffle=False, verbose=0)
"""

LOCAL = "local BatchNormalization"
PLANTED = (
    Planted(
        "local norm",
        "local norm",
        "torch",
        BATCH_NORM,
        1,
        "loss|norm",
        "local BatchNormalization",
        ("--batch-norm", "local"),
    ),
    Planted("scoped norm", "local norm", "tensorflow", SCOPED_NORM, 1, "loss|norm", LOCAL),
    Planted("dropout", "random layer", "torch", DROPOUT, 1, "loss|last", "random layers"),
    Planted("noise", "random layer", "tensorflow", NOISE, 1, "loss|last", "random layers"),
    Planted("generator draws", "source", "jax", GENERATOR_DRAWS, 3, "loss|last", "source draws", AHEAD),
    Planted("source sees callback", "source", "torch", SHARED_STATE, 3, "loss|last", "data", AHEAD),
    Planted("batch read twice", "source", "jax", READ_TWICE, 2, "loss|last|hidden", "data"),
    Planted("centered rows", "relates rows", "torch", CENTERED, 1, "loss|last", "relates rows"),
    Planted("rows contracted", "relates rows", "tensorflow", CONTRACTED, 1, "loss|last|hidden", "relates rows"),
    Planted("sum of penalties", "added loss", "torch", ADDED_SUM, 1, "hidden|loss", "add_loss"),
    Planted("sum of penalties", "added loss", "tensorflow", ADDED_SUM, 1, "hidden|loss", "add_loss"),
    Planted("own step", "own step", "tensorflow", OWN_STEP_TENSORFLOW, 1, "hidden|last|own", "own step"),
    Planted("own step", "own step", "torch", OWN_STEP_TORCH, 1, "hidden|last|own", "own step"),
    Planted("seed of the clock", "does not repeat", "jax", CLOCK, 0, "dense", "does not repeat"),
    Planted("unseeded targets", "does not repeat", "torch", UNSEEDED, 1, "loss|dense|last", "does not repeat"),
    Planted("file of the last run", "does not repeat", "jax", LEFT_FILE, 0, "last", "does not repeat"),
    Planted("no all-reduce", "all-reduce", "jax", CUT_JAX, 1, "hidden|last|loss", "unknown"),
    Planted("no all-reduce", "all-reduce", "tensorflow", CUT_TENSORFLOW, 1, "hidden|last", "unknown"),
    Planted("no all-reduce", "all-reduce", "torch", CUT_TORCH, 1, "hidden|last", "unknown"),
    Planted("sums seen", "layer state", "tensorflow", LAYER_STATE, 1, "counts/seen", "layer state"),
    Planted("rate by devices", "by devices", "jax", LEARNING_RATE, 0, "learning_rate", "learning rate"),
    Planted("batch by devices", "by devices", "jax", STEPS_BY_DEVICES, 1, "loss|last", "data"),
)
