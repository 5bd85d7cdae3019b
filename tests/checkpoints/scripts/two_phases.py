"""A script of two fits with validation, as a user writes it, which notes in a file what it does and when.

`python two_phases.py LOG RESULT`. It is run as a script, so it imports nothing of the tests.
"""

import json
import sys
import time

log_file = open(sys.argv[1], "a", buffering=1)


def note(phase):
    log_file.write(f"{phase} {time.monotonic()}\n")


note("import")
import keras  # noqa: E402
import numpy as np  # noqa: E402

note("build")
STEP_SECONDS = 0.03


class Notes(keras.callbacks.Callback):
    """Notes the phases of a fit; steps and batches of a validation take some time, so that a signal can meet them."""

    def on_train_begin(self, logs=None):
        note("compile")

    def on_train_batch_end(self, batch, logs=None):
        note("steps")
        time.sleep(STEP_SECONDS)

    def on_test_begin(self, logs=None):
        note("validation")

    def on_test_batch_end(self, batch, logs=None):
        time.sleep(STEP_SECONDS)

    def on_test_end(self, logs=None):
        note("epoch end")


def data(rows, seed):
    x = np.random.default_rng(seed).normal(size=(rows, 12)).astype("float32")
    return x, np.tanh(x @ np.linspace(-1, 1, 12).astype("float32"))[:, None]


def build():
    layers = [keras.layers.Dense(24, activation="relu"), keras.layers.BatchNormalization()]
    if keras.backend.backend() == "jax":  # elsewhere each replica draws its own numbers
        layers.append(keras.layers.Dropout(0.2))
    return keras.Sequential([keras.Input((12,)), *layers, keras.layers.Dense(1)])


keras.utils.set_random_seed(7)
model = build()
histories = []
for learning_rate, epochs in ((1e-2, 3), (1e-3, 2)):
    note("between")
    model.compile(keras.optimizers.Adam(learning_rate, use_ema=True), "mse", metrics=["mae"])
    callbacks = [keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.5, min_delta=1.0), Notes()]
    options = {"validation_data": data(40, 2), "verbose": 0, "callbacks": callbacks}
    histories.append(model.fit(*data(150, 1), batch_size=16, epochs=epochs, **options).history)
    note("between")
    time.sleep(0.2)

variables = [*model.variables, *model.optimizer.variables]
arrays = {f"{i}": np.array(keras.ops.convert_to_numpy(variable)) for i, variable in enumerate(variables)}
histories.append({"predictions": model.predict(data(40, 3)[0], verbose=0).ravel().tolist()})
np.savez(sys.argv[2], **arrays, history=json.dumps(histories))
note("done")
