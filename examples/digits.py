"""Train a small convolutional network on handwritten digits and save it: an ordinary Keras script.

The digits are the 1,797 images of 8 x 8 pixels that scikit-learn ships. Run it as it is, on any Keras backend:

    python examples/digits.py --output demo-output/plain
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def load_data():
    """`(train images, train labels, test images, test labels)`; 1,437 rows for training, which 64 does not divide."""
    digits = load_digits()
    images = (digits.images[..., np.newaxis] / 16).astype("float32")
    labels = digits.target.astype("int32")
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)
    return train_x, train_y, test_x, test_y


def build_model(num_steps):
    """Two convolutions with BatchNormalization, compiled for a training of `num_steps`.

    Its functions are smooth: in a maximum, rounding can change which pixel trains, and after that all weights.
    """
    layers = [keras.Input((8, 8, 1))]
    for filters in (16, 32):
        layers += [
            keras.layers.Conv2D(filters, 3, padding="same", use_bias=False),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.Activation("silu"),
            keras.layers.AveragePooling2D(2),
        ]
    layers += [keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")]
    model = keras.Sequential(layers)
    learning_rate = keras.optimizers.schedules.CosineDecay(0.05, num_steps)
    optimizer = keras.optimizers.SGD(learning_rate, momentum=0.9)
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


class EpochClock(keras.callbacks.Callback):
    """Seconds of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.start)


def main():
    parser = argparse.ArgumentParser(description="Train a small convolutional network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--output", type=Path, default=Path("demo-output/plain"), help="folder of the saved files")
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    train_x, train_y, test_x, test_y = load_data()
    model = build_model(options.epochs * -(-len(train_x) // options.batch_size))
    clock = EpochClock()
    model.fit(train_x, train_y, batch_size=options.batch_size, epochs=options.epochs, verbose=2, callbacks=[clock])
    _, accuracy = model.evaluate(test_x, test_y, batch_size=options.batch_size, verbose=0)
    predictions = model.predict(test_x, batch_size=options.batch_size, verbose=0)

    options.output.mkdir(parents=True, exist_ok=True)
    model.save(options.output / "digits.keras")
    np.savez(options.output / "predictions.npz", x=test_x, predictions=predictions)
    # The first epoch is left out: it compiles.
    rows_per_second = len(train_x) / np.median(clock.seconds[1:] or clock.seconds)
    result = {"accuracy": float(accuracy), "rows_per_second": float(rows_per_second)}
    (options.output / "result.json").write_text(json.dumps(result) + "\n")
    print(f"test accuracy {accuracy:.4f}, {rows_per_second:.0f} rows/s, saved {options.output / 'digits.keras'}")


if __name__ == "__main__":
    main()
