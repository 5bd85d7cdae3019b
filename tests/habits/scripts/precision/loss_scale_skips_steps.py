"""A loss scale that is too large in the first steps: gradients overflow in float16, and the optimizer skips these steps."""

TOLERANCE = 2e-3  # float16

import keras

from tests.habits.data import regression

keras.config.set_dtype_policy("mixed_float16")
x, y = regression(rows=64)
inputs = keras.Input((x.shape[1],))
model = keras.Sequential([inputs, keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, 4 * y, batch_size=32, epochs=4, shuffle=False, verbose=0)
keras.config.set_dtype_policy("float32")
result = {
    "model": model,
    "history": history,
    "steps": int(model.optimizer.inner_optimizer.iterations),
    "scale": float(model.optimizer.dynamic_scale),
}
