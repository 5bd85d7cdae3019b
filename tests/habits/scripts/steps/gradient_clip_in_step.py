"""A `train_step` that clips the gradients itself: what it clips are those of a replica's rows."""

EXPECTED = {"tensorflow": "announced: train_step"}
BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class Clipped(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, self.trainable_variables), 0.1)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


x, y = regression(rows=48)
inputs = keras.Input((6,))
model = Clipped(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
