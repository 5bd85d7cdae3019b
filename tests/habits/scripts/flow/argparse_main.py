"""A script with `main`, arguments and a `__main__` guard."""

import argparse

import keras

from tests.habits.data import regression


def build(width):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(width, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    options = parser.parse_args(arguments)
    x, y = regression()
    model = build(options.width)
    return model, model.fit(x, y, epochs=2, batch_size=16, verbose=0)


if __name__ == "__main__":
    result = main(["--width", "5"])
