"""The script of `abreast check` without a script: a small network that trains, evaluates and predicts.

Its last batch is smaller than the others, and BatchNormalization relates the rows of a batch: both differ between devices if
rows are divided wrongly. It draws no random numbers in layers, which cannot be equal on every framework.
"""

from __future__ import annotations


def main() -> None:
    import keras
    import numpy as np

    random = np.random.default_rng(0)
    pictures = random.normal(size=(70, 8, 8, 1)).astype("float32")
    labels = random.integers(0, 4, size=70)
    weights = random.uniform(0.5, 2.0, size=70).astype("float32")
    layers = keras.layers
    model = keras.Sequential(
        [  # also if Keras's configuration has the channels first
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, use_bias=False, data_format="channels_last"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(data_format="channels_last"),
            layers.Dense(4),
        ],
        name="small_model",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(pictures, labels, sample_weight=weights, batch_size=16, epochs=2, verbose=0)
    model.evaluate(pictures, labels, batch_size=16, verbose=0)
    model.predict(pictures, batch_size=16, verbose=0)


if __name__ == "__main__":
    main()
