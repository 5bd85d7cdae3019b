"""A `PyDataset` with two worker threads."""

import keras

from tests.habits.data import classification


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return x[index * 8 : index * 8 + 8], y[index * 8 : index * 8 + 8]


x, y = classification()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(Batches(workers=2, max_queue_size=4), epochs=2, shuffle=False, verbose=0)
result = {"model": model, "history": history}
