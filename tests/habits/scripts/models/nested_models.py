"""Models within models, with a layer that two of them share."""

import keras

from tests.habits.data import regression

x, y = regression()
shared = keras.layers.Dense(5, "tanh")
left = keras.Sequential([keras.Input((6,)), shared, keras.layers.Dense(4)], name="left")
right = keras.Sequential([keras.Input((6,)), shared, keras.layers.Dense(4)], name="right")
inputs = keras.Input((6,))
model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.add([left(inputs), right(inputs), left(-inputs)])))
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history, "left": left.predict(x, verbose=0)}
