"""`clone_model`, with the weights taken over, and `from_config`."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=10, verbose=0)
clone = keras.models.clone_model(model)
clone.set_weights(model.get_weights())
clone.compile("adam", "mse")
clone.fit(x, y, batch_size=10, shuffle=False, verbose=0)
other = keras.Sequential.from_config(model.get_config())
other.set_weights(clone.get_weights())
result = {"model": model, "clone": clone, "other": other.predict(x, verbose=0)}
