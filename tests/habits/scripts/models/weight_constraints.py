"""Constraints of weights, orthogonal starts, tied weights."""

import keras

from tests.habits.data import regression

x, _ = regression()
encode = keras.layers.Dense(4, kernel_constraint=keras.constraints.MaxNorm(1.0), kernel_initializer="orthogonal")


class Transposed(keras.layers.Layer):
    def call(self, inputs):
        return keras.ops.matmul(inputs, keras.ops.transpose(encode.kernel))


model = keras.Sequential([keras.Input((6,)), encode, Transposed()])
model.compile("adam", "mse")
history = model.fit(x, x, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
