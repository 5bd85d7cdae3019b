"""A layer of prototypes: distances from the mean of each class in the batch. The class is a column of floats in the input."""

EXPECTED = {"tensorflow": "announced: related to one another", "torch": "announced: related to one another"}

import keras
import numpy as np
from keras import ops

from tests.habits.data import classification


class Prototypes(keras.layers.Layer):
    def call(self, inputs):
        features, labels = inputs[:, :-1], ops.cast(inputs[:, -1], "int32")
        members = ops.one_hot(labels, 3)
        means = ops.transpose(members) @ features / (ops.sum(members, axis=0)[:, None] + 1e-3)
        return -ops.sum((features[:, None] - means[None]) ** 2, axis=-1)


x, y = classification(rows=46)
x = np.concatenate([x, y[:, None]], axis=1).astype("float32")
model = keras.Sequential([Prototypes(), keras.layers.Dense(3, "softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
history = model.fit(x, y, batch_size=14, epochs=2, shuffle=False, verbose=0)
result = {"history": history, "model": model, "predicted": model.predict(x, batch_size=14, verbose=0)}
