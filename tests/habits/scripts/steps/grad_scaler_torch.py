"""A step of one's own scales its loss with a `torch.amp.GradScaler` that grows until gradients overflow float16."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: may overflow float16"}

import keras
import numpy as np
import torch

keras.mixed_precision.set_dtype_policy("mixed_float16")


class Scaled(keras.Model):
    def prepare(self, unscales, scale):
        self.sgd = torch.optim.SGD([weight.value for weight in self.trainable_weights], lr=0.001)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
        self.unscales = unscales

    def train_step(self, data):
        x, y = data
        self.sgd.zero_grad()
        loss = self.compute_loss(x, y, self(x, training=True))
        self.scaler.scale(loss).backward()
        if self.unscales:
            self.scaler.unscale_(self.sgd)
        self.scaler.step(self.sgd)
        self.scaler.update()
        return {"error": loss}


# The first half of each batch is far from its target: a mean over it alone is larger than that of the batch.
x = np.ones((144 + 4 + 1, 1), "float32")
y = np.concatenate([np.tile(np.repeat([[1.5], [0.0]], 8, 0), (9, 1)), [[1.5], [1.5], [0.0], [0.0], [0.0]]])
losses, weights, scales = [], [], []
for unscales in (False, True):
    for batch_size, scale in ((16, 2.0**12), (148, 2.0**15)):  # of 148 rows, all devices have the same gradient
        keras.utils.set_random_seed(1)
        inputs = keras.Input((1,))
        model = Scaled(inputs, keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs))
        model.prepare(unscales, scale)
        model.compile("sgd", "mse")
        losses += model.fit(x, y, batch_size=batch_size, epochs=3, verbose=0, shuffle=False).history["error"]
        weights += model.get_weights()
        scales.append(model.scaler.get_scale())
keras.mixed_precision.set_dtype_policy("float32")
result = {"losses": losses, "scales": np.array(scales), "weights": weights}
