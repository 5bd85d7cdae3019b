"""A `train_step` that calls a concrete function of the model, traced before `fit`."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "refused: a step calls a concrete function"}

import keras
import tensorflow as tf

from tests.habits.data import regression


class Concrete(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self.forward(x))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


x, y = regression()
inputs = keras.Input((6,))
model = Concrete(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", "mse")
model.forward = tf.function(lambda x: model(x, training=True)).get_concrete_function(tf.TensorSpec([None, 6]))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
