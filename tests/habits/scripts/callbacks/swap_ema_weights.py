"""SwapEMAWeights evaluates with averaged weights."""

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX reads arrays that a step has used up

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8), "mse")
swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
history = model.fit(x, y, epochs=3, batch_size=8, validation_split=0.2, callbacks=[swap], verbose=0)
result = {"model": model, "history": history, "predict": model.predict(x, verbose=0)}
