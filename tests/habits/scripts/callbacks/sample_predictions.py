"""A callback predicts some samples at the end of each epoch."""

import keras

from tests.habits.data import images


class Sample(keras.callbacks.Callback):
    def __init__(self, x):
        super().__init__()
        self.x, self.seen = x, []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(self.model.predict(self.x, verbose=0))


x, y = images()
model = keras.Sequential(
    [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
sample = Sample(x[:5])
model.fit(x, y, epochs=2, batch_size=10, callbacks=[sample], verbose=0)
result = {"seen": sample.seen, "model": model}
