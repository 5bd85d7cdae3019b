"""A callback changes what scripts rarely change: classes of objects, a metaclass, a queue, an event, the folder."""

import os
import queue
import threading

import keras

from tests.habits.data import regression


class Meta(type):
    factor = 1.0


class Setting(metaclass=Meta):
    pass


class Doubled(keras.layers.Dense):
    def call(self, inputs, training=None):
        return 2.0 * super().call(inputs)


class Scaled(keras.layers.Dense):
    def call(self, inputs):
        if switch.is_set() and not other.is_set():
            inputs = 0.5 * inputs
        scale = globals().get("scale", 1.0) * type(Setting).factor * waiting.queue[0]
        with open("factor.txt", encoding="utf-8") as file:
            return scale * float(file.read()) * super().call(inputs)


class Rated(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient * getattr(variable.value, "rate", 1.0), variable, learning_rate)


class Change(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            Meta.factor, globals()["scale"] = 0.5, 1.5
            waiting.get()
            waiting.put(1.2)
            os.chdir("other")
            switch.set()
            other.clear()
        if epoch == 2:
            self.model.layers[1].__class__ = Doubled
            if keras.backend.backend() == "torch":
                self.model.layers[0].kernel.value.rate = 0.1


for folder, number in ((".", "1.0"), ("other", "0.9")):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/factor.txt", "w", encoding="utf-8") as file:
        file.write(number)
waiting = queue.Queue()
waiting.put(1.0)
switch, other = threading.Event(), threading.Event()
other.set()
x, y = regression()
model = keras.Sequential([keras.Input((6,)), Scaled(8, "tanh"), keras.layers.Dense(1)])
model.compile(Rated(0.05), "mse", run_eagerly=keras.backend.backend() == "torch")
start = os.getcwd()
history = model.fit(x, y, epochs=4, batch_size=14, callbacks=[Change()], verbose=0)
os.chdir(start)
result = {"model": model, "history": history}
