"""With `run_eagerly`, a `train_step` reads in Python what does not depend on its rows: steps, rates, sizes, assertions."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Warming(Stepping):
    def train_step(self, data):
        x, y = data
        tf.debugging.assert_all_finite(x, "rows")
        tf.debugging.assert_greater(x, -100.0)
        rows = int(tf.shape(x)[0])
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        share = min(1.0, (1 + int(self.optimizer.iterations)) / 4) if rows else 0.0
        rate = float(self.optimizer.learning_rate)
        self.apply(self.optimizer, [gradient * share * rate for gradient in gradients])
        return {"loss": loss}


x, y = regression(rows=64)
model = Warming()
model(x[:1])  # else plain Keras has no weights when the first step reads them
model.compile(keras.optimizers.SGD(0.3), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
