"""An ensemble: several models are trained, averaged by a model of models, and evaluated."""

import keras

from tests.habits.data import regression

x, y = regression()
members = []
for seed in range(3):
    init = keras.initializers.GlorotUniform(seed)
    member = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu", kernel_initializer=init)])
    member.add(keras.layers.Dense(1, kernel_initializer=init))
    member.compile("adam", "mse")
    member.fit(x, y, batch_size=16, verbose=0)
    members.append(member)
inputs = keras.Input((6,))
model = keras.Model(inputs, keras.layers.average([member(inputs) for member in members]))
model.compile("adam", "mse")
before = model.evaluate(x, y, verbose=0)
history = model.fit(x, y, batch_size=16, verbose=0)
result = {"before": before, "history": history, "model": model}
