"""`shuffle="batch"` with arrays of NumPy, which Keras shuffles one by one."""

import keras
from keras import layers

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle="batch")
result = {"model": model, "history": history}
