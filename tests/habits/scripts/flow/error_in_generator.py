"""A generator fails in the middle of an epoch; the error is the user's own, and training goes on with arrays."""

# TensorFlow: plain Keras counts the step whose batch never came.
WITHOUT = {"tensorflow": ["result/model/optimizer/0 iteration"]}

import keras

from tests.habits.data import regression


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        if index == 3:
            raise OSError("a file is gone")
        return x[:8], y[:8]


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
said = ""
try:
    model.fit(Batches(), shuffle=False, verbose=0)
except Exception as error:
    said = "a file is gone" in str(error)
history = model.fit(x, y, epochs=1, shuffle=False, verbose=0)
result = {"said": said, "model": model, "history": history}
