"""`Normalization` adapted to the data, and `Discretization`, inside the model."""

import keras

from tests.habits.data import regression

x, y = regression()
normalize = keras.layers.Normalization()
normalize.adapt(x)
model = keras.Sequential([normalize, keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
