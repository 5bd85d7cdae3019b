"""The learning rate and weights are set between fits; the optimizer is changed in place."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse")
model.fit(x, y, batch_size=16, verbose=0)
model.optimizer.learning_rate = 0.01
model.layers[0].kernel.assign(model.layers[0].kernel * 0.5)
model.fit(x, y, batch_size=16, verbose=0)
model.optimizer.learning_rate.assign(0.2)
kernel, bias = model.layers[1].get_weights()
model.layers[1].set_weights([kernel, bias + 1])
model.fit(x, y, batch_size=16, verbose=0)
result = model
