"""Transfer learning: the base is frozen, then unfrozen and fine-tuned with a lower rate."""

# The bias before BatchNormalization has the gradient 0: Adam makes steps of what rounding leaves.
WITHOUT = {
    "jax": ["result/model/weights/1 bias"],
    "tensorflow": ["result/model/weights/1 bias"],
    "torch": ["result/model/weights/1 bias"],
}

import keras

from tests.habits.data import images

x, y = images()
base = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(4, 3),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.GlobalAveragePooling2D(),
    ]
)
base.trainable = False
inputs = keras.Input((8, 8, 1))
model = keras.Model(inputs, keras.layers.Dense(3)(base(inputs, training=False)))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
first = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
base.trainable = True
model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"])
second = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "first": first, "second": second}
