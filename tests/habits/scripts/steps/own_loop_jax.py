"""A loop of one's own with `stateless_call`, after `fit`, whose result is assigned back."""

BACKENDS = ("jax",)

import jax
import keras

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)


def loss(trainable, others, x, y):
    y_pred, others = model.stateless_call(trainable, others, x)
    return keras.ops.mean(keras.ops.square(y_pred - y)), others


@jax.jit
def step(trainable, others, state, x, y):
    (value, others), gradients = jax.value_and_grad(loss, has_aux=True)(trainable, others, x, y)
    trainable, state = model.optimizer.stateless_apply(state, gradients, trainable)
    return value, trainable, others, state


state = (
    [each.value for each in model.trainable_variables],
    [each.value for each in model.non_trainable_variables],
    [each.value for each in model.optimizer.variables],
)
for start in range(0, 48, 16):
    value, *state = step(*state, x[start : start + 16], y[start : start + 16])
variables = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
for group, values in zip(variables, state, strict=True):
    for variable, new in zip(group, values, strict=True):
        variable.assign(new)
again = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "loss": value, "history": history, "again": again}
