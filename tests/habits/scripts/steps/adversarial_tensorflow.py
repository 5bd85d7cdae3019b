"""Adversarial training: the step makes worst-case inputs by their gradient."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import classification


class Adversarial(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        worse = x + 0.1 * tf.sign(tape.gradient(loss, x))
        with tf.GradientTape() as tape:
            y_pred = self(worse, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


x, y = classification(rows=48)
inputs = keras.Input((6,))
model = Adversarial(inputs, keras.layers.Dense(3)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
