"""A layer refers weakly to objects of the script, alone and in the weak containers of Python, and a callback drops them."""

BACKENDS = ("torch",)

import weakref

import keras

from tests.habits.data import regression


class Trainer:
    def __init__(self, alpha):
        self.alpha = alpha
        self.parts = [self.__class__.__name__]


class Scaled(keras.layers.Layer):
    def __init__(self, owners):
        super().__init__()
        self.owner, self.by_name = weakref.ref(owners[0]), weakref.WeakValueDictionary(a=owners[1])
        self.all, self.by_owner = weakref.WeakSet([owners[2]]), weakref.WeakKeyDictionary({owners[3]: 0.25})

    def call(self, x):
        owner = self.owner()
        factor = 1.0 if owner is None else owner.alpha
        factor += sum(each.alpha for each in self.by_name.values()) + sum(each.alpha for each in self.all)
        return x * (factor + sum(self.by_owner.values()))


class Drop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 2:
            owners.pop()


x, y = regression()
for first in range(4):  # which of them goes last
    owners = [Trainer(0.5 + 0.1 * number) for number in range(4)]
    layer = Scaled(owners)
    owners = owners[first:] + owners[:first]
    if not first:
        model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(4), layer, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    else:
        model.layers[1].owner, model.layers[1].by_name = layer.owner, layer.by_name
        model.layers[1].all, model.layers[1].by_owner = layer.all, layer.by_owner
    model.fit(x, y, batch_size=8, epochs=2, steps_per_epoch=4, verbose=0, callbacks=[Drop()])
result = {"model": model, "predict": model.predict(x, verbose=0)}
