"""A stateful recurrent layer, which keeps a state for each row of the batch."""

EXPECTED = {"tensorflow": "refused: stateful"}
BACKENDS = ("jax", "tensorflow")  # on PyTorch, Keras's own step fails

import keras

from tests.habits.data import series

x, y = series(rows=16)
model = keras.Sequential(
    [keras.Input((9, 2), batch_size=8), keras.layers.LSTM(4, stateful=True), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
history = model.fit(x, y, epochs=1, batch_size=8, shuffle=False, verbose=0)
result = {"model": model, "history": history}
