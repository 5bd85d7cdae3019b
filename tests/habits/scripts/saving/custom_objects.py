"""`load_model` with custom objects, and a registered layer with a configuration."""

import keras

from tests.habits.data import regression


class Scale(keras.layers.Layer):
    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs):
        return inputs * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def bent(y_true, y_pred):
    return keras.ops.mean(keras.ops.abs(y_true - y_pred) ** 1.5, axis=-1)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), Scale(0.5), keras.layers.Dense(1)])
model.compile("adam", bent, metrics=[bent])
model.fit(x, y, batch_size=10, verbose=0)
model.save("model.keras")
loaded = keras.models.load_model("model.keras", custom_objects={"Scale": Scale, "bent": bent})
history = loaded.fit(x, y, batch_size=10, shuffle=False, verbose=0)
result = {"model": loaded, "history": history, "evaluate": loaded.evaluate(x, y, verbose=0)}
