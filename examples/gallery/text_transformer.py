"""Train a small transformer to write English, letter by letter, and let it write.

    abreast run --devices 4 examples/gallery/text_transformer.py --text book.txt --epochs 20
    abreast run --cpu-devices 2 examples/gallery/text_transformer.py --epochs 1 --rows 512

Without `--text` it reads the manual that comes with Python (`pydoc_data`): nothing is downloaded. An ordinary Keras script, for
any backend. Source of the network: Vaswani et al., Attention Is All You Need (2017), the decoder alone.
"""

import argparse
from pathlib import Path
from pydoc_data.topics import topics

import keras
import numpy as np
from keras import layers, ops

LENGTH = 64  # letters of one row
WIDTH = 64


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--text", type=Path, help="a file of text; default: Python's manual")
    parser.add_argument("--rows", type=int, help="train on that many rows alone")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="rows of one step, over all devices")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    text = options.text.read_text() if options.text else "\n".join(topics.values())
    letters, numbers = np.unique(list(text), return_inverse=True)
    x, y = rows(numbers.astype("int32"), options.rows)
    model = transformer(len(letters))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(2e-3), loss, metrics=["accuracy"])
    history = model.fit(x, y, batch_size=options.batch_size, epochs=options.epochs, validation_split=0.1, verbose=2)
    print("".join(letters[write(model, x[0], num_letters=40)]))
    print(f"validation accuracy {history.history['val_accuracy'][-1]:.4f} of {len(letters)} letters")


def rows(numbers, limit):
    """Pieces of the text, in random order, and the letter that follows each letter: two arrays (rows, LENGTH)."""
    count = (len(numbers) - 1) // LENGTH
    chosen = np.random.default_rng(0).permutation(count)[:limit]
    pieces = np.stack([numbers[i * LENGTH : (i + 1) * LENGTH + 1] for i in chosen])
    return pieces[:, :-1], pieces[:, 1:]


class Positions(layers.Layer):
    """Adds a learned vector for each place in a row."""

    def build(self, shape):
        self.places = self.add_weight(shape=(LENGTH, shape[-1]), initializer="uniform")

    def call(self, x):
        return x + self.places


def transformer(num_letters, num_blocks=2):
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = Positions()(layers.Embedding(num_letters, WIDTH)(inputs))
    for _ in range(num_blocks):
        normal = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, WIDTH // 4)(normal, normal, use_causal_mask=True)])
        wide = layers.Dense(4 * WIDTH, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(WIDTH)(wide)])
    return keras.Model(inputs, layers.Dense(num_letters)(layers.LayerNormalization()(x)))


def write(model, start, num_letters):
    """The letters after `start`, each the likeliest one."""
    row = list(start)
    for _ in range(num_letters):
        logits = model.predict_on_batch(np.asarray([row[-LENGTH:]]))
        row.append(int(ops.argmax(logits[0, -1])))
    return row[len(start) :]


if __name__ == "__main__":
    main()
