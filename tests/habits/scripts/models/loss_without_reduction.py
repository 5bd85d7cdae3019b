"""A loss that is not reduced: one number for each row, of which TensorFlow takes the gradient of the sum."""

EXPECTED = {"tensorflow": "refused: has no reduction"}
BACKENDS = ("tensorflow",)

import keras

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", keras.losses.MeanSquaredError(reduction="none"))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
