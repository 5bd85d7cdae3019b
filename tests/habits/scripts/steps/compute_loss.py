"""`compute_loss` of one's own, with a metric of its own."""

import keras

from tests.habits.data import regression


class CustomModel(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tracker = keras.metrics.Mean(name="tracked")

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        loss = keras.ops.mean(keras.ops.square(y - y_pred)) + 0.1 * keras.ops.mean(keras.ops.abs(y_pred))
        self.tracker.update_state(loss)
        return loss

    @property
    def metrics(self):
        return [self.tracker]

    def reset_metrics(self):
        self.tracker.reset_state()


x, y = regression()
inputs = keras.Input((6,))
model = CustomModel(inputs, keras.layers.Dense(1)(inputs))
model.compile(optimizer="adam")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
