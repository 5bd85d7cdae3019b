"""A `test_step` and a `predict_step` of one's own."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression


class CustomModel(keras.Model):
    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        return {"error": keras.ops.mean(keras.ops.abs(y - y_pred))}

    def predict_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        return keras.ops.round(self(x, training=False))


x, y = regression(rows=40)
inputs = keras.Input((6,))
model = CustomModel(inputs, keras.layers.Dense(1)(inputs))
model.compile(optimizer="adam", loss="mse")
history = model.fit(x, y, epochs=2, batch_size=20, validation_data=(x, y), validation_batch_size=20, verbose=0)
result = {"history": history, "predict": model.predict(x, verbose=0)}
