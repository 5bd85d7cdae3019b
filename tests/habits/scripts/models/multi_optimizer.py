"""An optimizer for each part of the model: Keras's `MultiOptimizer`, since 3.15."""

import keras

from tests.habits.data import regression

x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh", name="body"), keras.layers.Dense(1)])
slow, fast = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam(0.01)
optimizers = getattr(keras.optimizers, "MultiOptimizer", None)


def optimizer_of(variable):
    return slow if "body" in variable.path else fast


model.compile(optimizers(optimizer_of) if optimizers else slow, "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
