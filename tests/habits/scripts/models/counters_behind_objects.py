"""A layer whose counters are behind a key, a weak reference and a bound method, in buffers and a queue."""

import array
import io
import queue
import weakref

import keras

from tests.habits.data import regression


class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


kept = Counter()


class Counting(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.by_key = {Counter(): "key"}
        self.weak = weakref.ref(kept)
        self.log = [].append
        self.bytes = bytearray(2)
        self.text = io.StringIO()
        self.array = array.array("l", [0])
        self.waiting = queue.Queue()

    def call(self, x):
        (counter,) = self.by_key
        count = counter.add() + self.weak().add()
        self.log(count)
        self.bytes[0] += 1
        self.text.write(f"call {count}\n")
        self.array[0] += 1
        self.waiting.put(count)
        counts = len(self.log.__self__), self.bytes[0], len(self.text.getvalue()), self.array[0], self.waiting.qsize()
        return x * (count + sum(counts)) / 30


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Counting(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
layer = model.layers[1]
result = {
    "history": history,
    "model": model,
    "counts": [*(each.count for each in layer.by_key), layer.weak().count, len(layer.log.__self__), layer.bytes[0]],
    "buffers": [len(layer.text.getvalue()), layer.array[0], layer.waiting.qsize()],
}
