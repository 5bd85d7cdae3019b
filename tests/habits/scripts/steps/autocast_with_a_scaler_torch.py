"""A step of one's own under `torch.autocast`, with a `GradScaler`, a clipped norm and Adam of PyTorch's."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: may overflow float16"}

import keras
import numpy as np
import torch


class Scaled(keras.Model):
    def prepare(self):
        self.adam = torch.optim.Adam([weight.value for weight in self.trainable_weights], lr=0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)

    def train_step(self, data):
        x, y = data
        self.adam.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = self.compute_loss(x, y, self(x, training=True))
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.adam)
        torch.nn.utils.clip_grad_norm_(self.parameters(), 0.5)
        self.scaler.step(self.adam)
        self.scaler.update()
        return {"error": loss}


keras.utils.set_random_seed(1)
inputs = keras.Input((4,))
module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model = Scaled(inputs, keras.layers.TorchModuleWrapper(module, output_shape=(None, 1))(inputs))
model.prepare()
model.compile("sgd", "mse")
generator = np.random.default_rng(1)
x = generator.normal(size=(96, 4)).astype("float32")
history = model.fit(x, x.sum(1, keepdims=True), batch_size=16, epochs=6, verbose=0).history
result = {"losses": history["error"], "scale": model.scaler.get_scale(), "weights": model.get_weights()}
