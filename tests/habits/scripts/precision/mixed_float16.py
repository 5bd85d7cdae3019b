"""Mixed precision in float16 with its loss scaling."""

import keras

from tests.habits.data import regression

keras.config.set_dtype_policy("mixed_float16")
x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1, dtype="float32")])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, epochs=3, batch_size=16, verbose=0)
result = {"history": history, "weights": model.get_weights(), "scale": model.optimizer.dynamic_scale}
TOLERANCE = 5e-3  # float16 keeps 11 bits
