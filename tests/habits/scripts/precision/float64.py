"""Everything in float64."""

import keras

from tests.habits.data import regression

if keras.backend.backend() == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
keras.config.set_floatx("float64")
x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x.astype("float64"), y, epochs=3, batch_size=16, verbose=0)
result = {"history": history, "model": model}
if keras.backend.backend() == "jax":
    jax.config.update("jax_enable_x64", False)
# Measured: 1e-12. Keras on PyTorch gives losses as float32, in which 1e-12 can be one unit in the last place, 1.2e-7.
TOLERANCE = 1e-6
