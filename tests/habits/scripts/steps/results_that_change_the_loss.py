"""A model whose `get_metrics_result` anneals a factor that its loss reads: it runs after each step, once."""

import keras
from keras import ops

from tests.habits.data import regression


class Annealed(keras.Model):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.factor, self.results = 1.0, 0

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.factor * ops.mean(ops.square(y - y_pred))

    def get_metrics_result(self):
        self.factor *= 0.8
        self.results += 1
        return super().get_metrics_result()


x, y = regression(rows=64)
inputs = keras.Input((6,))
model = Annealed(inputs, keras.layers.Dense(1)(keras.layers.Dense(4, "tanh")(inputs)))
model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
histories = [model.fit(x, y, epochs=2, batch_size=32, shuffle=False, verbose=0) for _ in range(2)]
result = {"histories": histories, "model": model, "results": model.results}
