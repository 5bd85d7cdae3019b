"""A layer that computes under `torch.autocast`, as modules from other libraries do."""

BACKENDS = ("torch",)
TOLERANCE = 1e-3  # bfloat16

import keras
import numpy as np
import torch


class Fast(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(32, activation="gelu")
        self.outer = keras.layers.Dense(1)

    def call(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.outer(self.inner(x)).float()


keras.utils.set_random_seed(1)
inputs = keras.Input((16,))
model = keras.Model(inputs, Fast()(inputs))
model.compile("sgd", "mse")
generator = np.random.default_rng(1)
x = generator.normal(size=(64, 16)).astype("float32")
y = x.sum(1, keepdims=True)
result = {"loss": model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"], "weights": model.get_weights()}
