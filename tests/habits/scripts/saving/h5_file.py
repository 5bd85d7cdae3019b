"""The old HDF5 format."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=10, verbose=0)
model.save("model.h5")
loaded = keras.models.load_model("model.h5", compile=False)
loaded.compile("sgd", "mse")
loaded.fit(x, y, batch_size=10, shuffle=False, verbose=0)
result = loaded
