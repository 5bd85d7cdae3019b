"""Methods set on an object: of a metric, a layer, a loss and an optimizer of Keras's."""

import keras
from keras import ops

from tests.habits.data import regression

x, y = regression(rows=44)
layer = keras.layers.Dense(4, "tanh")
model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(1)])
optimizer, loss = keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError()
mae, root = keras.metrics.MeanAbsoluteError(name="mae"), keras.metrics.MeanSquaredError(name="root")
plain_layer, plain_apply, plain_loss = layer.call, optimizer.apply, loss.call
plain_update, plain_result = mae.update_state, root.result
layer.call = lambda inputs, **kwargs: plain_layer(inputs - ops.mean(inputs, axis=0))
optimizer.apply = lambda gradients, variables=None: plain_apply(
    [ops.clip(each, -1.0, 1.0) for each in gradients], variables
)
loss.call = lambda y_true, y_pred: plain_loss(y_true, y_pred) + ops.max(ops.abs(y_true - y_pred))
mae.update_state = lambda y_true, y_pred, sample_weight=None: plain_update(
    y_true, ops.maximum(y_pred, ops.mean(y_pred))
)
root.result = lambda: ops.sqrt(plain_result())
model.compile(optimizer, loss, metrics=[mae, root])
histories = [model.fit(x, y, batch_size=16, epochs=2, verbose=0).history for _ in range(2)]
result = {"model": model, "histories": histories, "evaluate": model.evaluate(x, y, batch_size=16, verbose=0)}
