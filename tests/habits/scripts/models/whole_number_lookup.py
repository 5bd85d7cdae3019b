"""A lookup layer for whole numbers in the model."""

BACKENDS = ("tensorflow", "torch")

import keras
import numpy as np

x = np.arange(46).reshape(-1, 1) % 15
y = (x[:, 0] % 3).astype("int32")
inputs = keras.Input((1,), dtype="int64")
known = keras.layers.IntegerLookup(vocabulary=[3, 7, 9, 12], output_mode="one_hot")(inputs)
model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(known))
model.compile("sgd", "sparse_categorical_crossentropy")
history = model.fit(x, y, batch_size=14, epochs=2, shuffle=False, verbose=0)
result = {"history": history, "model": model, "predicted": model.predict(x, batch_size=10, verbose=0)}
