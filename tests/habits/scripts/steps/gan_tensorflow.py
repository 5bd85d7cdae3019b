"""A GAN with two optimizers and a `GradientTape`."""

EXPECTED = {"tensorflow": "announced: draws"}
BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import images


class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.seed_generator = keras.random.SeedGenerator(1)
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def train_step(self, real):
        size = tf.shape(real)[0]
        noise = keras.random.normal((size, 3), seed=self.seed_generator)
        with tf.GradientTape() as tape:
            scores = self.discriminator(tf.concat([self.generator(noise), real], axis=0))
            d_loss = self.loss_fn(tf.concat([tf.ones((size, 1)), tf.zeros((size, 1))], axis=0), scores)
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply(tape.gradient(d_loss, weights), weights)
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(tf.zeros((size, 1)), self.discriminator(self.generator(noise)))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply(tape.gradient(g_loss, weights), weights)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


x, _ = images(rows=32)
discriminator = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8, "leaky_relu"), keras.layers.Dense(1)])
generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "leaky_relu"), keras.layers.Dense(64)])
gan = GAN(discriminator, generator)
gan.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
history = gan.fit(x.reshape(32, 64), epochs=2, batch_size=8, verbose=0)
result = {"discriminator": discriminator, "generator": generator, "history": history}
