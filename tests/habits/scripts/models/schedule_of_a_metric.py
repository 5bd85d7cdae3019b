"""A learning-rate schedule reads a metric."""

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX has no values of variables in a step

import keras
from keras import ops

from tests.habits.data import regression

hits = keras.metrics.TruePositives(name="hits", thresholds=0.0)


class Slower(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1 / (1.0 + 0.02 * ops.cast(hits.result(), "float32"))

    def get_config(self):
        return {}


x, y = regression(rows=62)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.SGD(Slower()), "binary_crossentropy", metrics=[hits])
history = model.fit(x, (y > 0).astype("float32"), epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
