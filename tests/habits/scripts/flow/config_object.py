"""A loss reads a configuration object that is changed between fits; the model is compiled anew each time."""

import types

import keras

from tests.habits.data import regression

config = types.SimpleNamespace(weight=1.0, powers=[2.0])


def loss(y_true, y_pred):
    return config.weight * keras.ops.mean(keras.ops.abs(y_true - y_pred) ** config.powers[0], axis=-1)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
losses = []
for weight, power in ((1.0, 2.0), (3.0, 2.0), (3.0, 1.0)):
    config.weight, config.powers[0] = weight, power
    model.compile("sgd", loss)
    losses += model.fit(x, y, batch_size=16, verbose=0).history["loss"]
result = {"losses": losses, "model": model}
