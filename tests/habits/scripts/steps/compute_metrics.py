"""`compute_metrics` of one's own adds to the logs."""

import keras

from tests.habits.data import regression


class CustomModel(keras.Model):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        logs["twice_mae"] = logs["mae"] * 2
        return logs


x, y = regression()
inputs = keras.Input((6,))
model = CustomModel(inputs, keras.layers.Dense(1)(inputs))
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
