"""A model whose `call` is the encoder alone: its step calls a head, and runs eagerly."""

EXPECTED = {"tensorflow": "refused: is built inside a step"}
BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class WithHead(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.layers.Dense(8, "relu")
        self.head = keras.Sequential(
            [keras.layers.Dense(4, "tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
        )
        self.head_optimizer = keras.optimizers.Adam(0.01)

    def call(self, x):
        return self.encoder(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(self.head(self(x, training=True), training=True) - y))
        for optimizer, part in ((self.optimizer, self.encoder), (self.head_optimizer, self.head)):
            variables = part.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


x, y = regression(rows=48)
model = WithHead()
model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"history": history, "weights": [variable.numpy() for variable in model.variables]}
