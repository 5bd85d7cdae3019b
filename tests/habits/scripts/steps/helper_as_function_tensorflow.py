"""A `train_step` whose work is in methods under `tf.function`; `test_step` uses one of them too."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class Helped(keras.Model):
    @tf.function
    def loss_of(self, x, y, training):
        return self.compute_loss(y=y, y_pred=self(x, training=training))

    @tf.function
    def learn(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y, training=True)
        gradients = tape.gradient(loss, self.trainable_variables)
        if self.optimizer.iterations > 2:
            gradients = [gradient / 2 for gradient in gradients]
        self.optimizer.apply(gradients, self.trainable_variables)
        return loss

    def train_step(self, data):
        return {"loss": self.learn(*data)}

    def test_step(self, data):
        return {"loss": self.loss_of(*data, training=False)}


x, y = regression()
inputs = keras.Input((6,))
hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8, "tanh")(inputs))
model = Helped(inputs, keras.layers.Dense(1)(hidden))
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, validation_data=(x[:20], y[:20]), verbose=0)
result = {"model": model, "history": history}
