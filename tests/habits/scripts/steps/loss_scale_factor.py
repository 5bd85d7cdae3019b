"""A step of one's own scales its loss as the guides do, with a `loss_scale_factor` near the limit of float16."""

BACKENDS = ("tensorflow", "torch")
EXPECTED = {"tensorflow": "announced: may overflow float16", "torch": "announced: may overflow float16"}

import keras
import numpy as np

if keras.backend.backend() == "torch":
    import torch
else:
    import tensorflow as tf

keras.mixed_precision.set_dtype_policy("mixed_float16")


class Guided(keras.Model):
    def train_step(self, data):
        x, y = data
        if keras.backend.backend() == "torch":
            self.zero_grad()
            loss = self.compute_loss(x, y, self(x, training=True))
            self.optimizer.scale_loss(loss).backward()
            weights = list(self.trainable_weights)
            with torch.no_grad():
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
        else:
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
                scaled = self.optimizer.scale_loss(loss)
            self.optimizer.apply(tape.gradient(scaled, self.trainable_variables), self.trainable_variables)
        return {"error": loss}


# The first half of each batch is far from its target: a mean over it alone is larger than that of the batch.
x = np.ones((144 + 4 + 1, 1), "float32")
y = np.concatenate([np.tile(np.repeat([[1.5], [0.0]], 8, 0), (9, 1)), [[1.5], [1.5], [0.0], [0.0], [1.5]]])
losses, weights = [], []
for factor in (2.0**15, 2.0**17):  # with the second one, the gradient of all rows overflows
    keras.utils.set_random_seed(1)
    inputs = keras.Input((1,))
    model = Guided(inputs, keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs))
    optimizer = keras.optimizers.SGD(0.001, loss_scale_factor=factor)
    model.compile(optimizer, "mse", auto_scale_loss=False)
    losses += model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history["error"]
    weights += model.get_weights()
keras.mixed_precision.set_dtype_policy("float32")
result = {"losses": losses, "weights": weights}
