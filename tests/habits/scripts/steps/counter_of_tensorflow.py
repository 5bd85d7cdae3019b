"""A `train_step` that counts its calls in a global `tf.Variable`, to anneal a part of the loss."""

BACKENDS = ("tensorflow",)
EXPECTED = {
    "tensorflow": "refused: step is a tf.Variable that Keras does not track and that the model's train_step changes"
}

import keras
import tensorflow as tf
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping

step = tf.Variable(0.0, trainable=False)


class Annealed(Stepping):
    def train_step(self, data):
        x, y = data
        step.assign_add(1.0)
        loss, gradients = self.gradients(
            lambda: self.squares(x, y) + tf.minimum(1.0, step / 8) * ops.mean(ops.square(self(x)))
        )
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = Annealed()
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "step": step.numpy()}
