"""A GAN with two optimizers, in the way of PyTorch; the noise comes with the batch."""

BACKENDS = ("torch",)

import keras
import numpy as np
import torch

from tests.habits.data import images


class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")
        self.built = True

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def train_step(self, data):
        real, noise = data
        size = real.shape[0]
        self.zero_grad()
        scores = self.discriminator(torch.cat([self.generator(noise).detach(), real]))
        d_loss = self.loss_fn(torch.cat([torch.ones((size, 1)), torch.zeros((size, 1))]), scores)
        d_loss.backward()
        weights = list(self.discriminator.trainable_weights)
        with torch.no_grad():
            self.d_optimizer.apply([each.value.grad for each in weights], weights)
        self.zero_grad()
        g_loss = self.loss_fn(torch.zeros((size, 1)), self.discriminator(self.generator(noise)))
        g_loss.backward()
        weights = list(self.generator.trainable_weights)
        with torch.no_grad():
            self.g_optimizer.apply([each.value.grad for each in weights], weights)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


x, _ = images(rows=32)
noise = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
discriminator = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8, "leaky_relu"), keras.layers.Dense(1)])
generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "leaky_relu"), keras.layers.Dense(64)])
gan = GAN(discriminator, generator)
gan.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
history = gan.fit(x.reshape(32, 64), noise, epochs=2, batch_size=8, verbose=0)
result = {"discriminator": discriminator, "generator": generator, "history": history}
