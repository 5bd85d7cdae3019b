"""A `train_step` and a `test_step` under `tf.function`, as in examples of TensorFlow 2, with an `if` on a tensor."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class Decorated(keras.Model):
    @tf.function
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        if self.optimizer.iterations > 2:
            gradients = [gradient / 2 for gradient in gradients]
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}

    @tf.function
    def test_step(self, data):
        x, y = data
        return {"loss": self.compute_loss(y=y, y_pred=self(x, training=False))}


x, y = regression()
inputs = keras.Input((6,))
model = Decorated(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, validation_data=(x[:20], y[:20]), verbose=0)
result = {"model": model, "history": history}
