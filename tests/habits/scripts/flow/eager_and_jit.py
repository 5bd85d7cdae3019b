"""`run_eagerly`, `jit_compile=False` and several steps per execution."""

import keras

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
losses = []
for settings in ({"jit_compile": False}, {"run_eagerly": True}, {"steps_per_execution": 3}):
    if keras.backend.backend() == "torch" and "steps_per_execution" in settings:
        settings = {}
    model.compile("sgd", "mse", **settings)
    losses += model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"]
result = {"model": model, "losses": losses}
