"""A step of one's own scales its loss for float16, and logs the scaled gradient of a bias before its optimizer divides it."""

BACKENDS = ("tensorflow", "torch")
TOLERANCE = 2e-3  # float16

import keras
import numpy as np

if keras.backend.backend() == "torch":
    import torch
else:
    import tensorflow as tf

keras.mixed_precision.set_dtype_policy("mixed_float16")


class Logging(keras.Model):
    def train_step(self, data):
        x, y = data
        if keras.backend.backend() == "torch":
            self.zero_grad()
            loss = self.compute_loss(x, y, self(x, training=True))
            self.optimizer.scale_loss(loss).backward()
            gradients = [weight.value.grad for weight in self.trainable_weights]
            logs = {"error": loss, "gradient": keras.ops.sum(gradients[1]) / 1024}
            with torch.no_grad():
                self.optimizer.apply(gradients, self.trainable_weights)
        else:
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
                scaled = self.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, self.trainable_variables)
            logs = {"error": loss, "gradient": keras.ops.sum(gradients[1]) / 1024}
            self.optimizer.apply(gradients, self.trainable_variables)
        return logs


keras.utils.set_random_seed(1)
inputs = keras.Input((2,))
model = Logging(inputs, keras.layers.Dense(1)(inputs))
model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=1024.0), "mse")
x = np.random.default_rng(1).normal(size=(64, 2)).astype("float32")
result = model.fit(x, x.sum(1, keepdims=True), batch_size=16, epochs=2, verbose=0, shuffle=False).history
keras.mixed_precision.set_dtype_policy("float32")
