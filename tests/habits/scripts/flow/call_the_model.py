"""The model is called like a function, between fits, on arrays and tensors, in training and not."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
seen = [model(x[:5])]
model.fit(x, y, batch_size=16, verbose=0)
seen.append(model(keras.ops.convert_to_tensor(x[:5]), training=True))
model.fit(x, y, batch_size=16, verbose=0)
seen.append(model(x[:5]))
result = {"seen": seen, "model": model}
