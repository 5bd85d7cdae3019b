"""Pack a folder of photographs, train a small network on the pack, and fine-tune it on another folder.

    python examples/images.py                                # pieces of photographs that come with scikit-image
    python examples/images.py --folder photos/               # yours: a folder per class
    python examples/images.py --folder photos/ --start demo-output/images/images.keras --epochs 3

An ordinary Keras script, except for the source of its batches; nothing is downloaded. It runs on any Keras backend, and on
several devices with `abreast run --devices 4 examples/images.py`. It needs `pip install '.[images]' scikit-image`.
"""

import argparse
import json
from pathlib import Path

import keras

import abreast
from abreast.records import RandomCrop, pack

PIECE = 64  # pixels
PIECES_PER_PHOTO = 64


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="photographs, a folder per class; default: some of scikit-image's")
    parser.add_argument("--start", type=Path, help="a model that this script saved, to fine-tune")
    parser.add_argument("--size", type=int, default=48, help="side of the network's input in pixels")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--output", type=Path, default=Path("demo-output/images"), help="folder of the saved files")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    options.output.mkdir(parents=True, exist_ok=True)
    folder = options.folder or photographs(options.output / "photographs")
    packed = options.output / f"{folder.name}.pack"
    # Returns at once if the folder is packed already.
    pack(folder, packed, size=4 * options.size, split={"train": 0.8, "test": 0.2})

    settings = {"batch_size": options.batch_size, "size": options.size}
    crop = RandomCrop(scale=(0.3, 1.0))
    with (
        abreast.ImageRecords(packed / "train", augment=crop, **settings) as train,
        abreast.ImageRecords(packed / "test", augment=False, **settings) as test,
    ):
        steps = options.epochs * len(train)
        model = build_model(train, steps) if options.start is None else fine_tuned(options.start, train, steps)
        model.fit(train, validation_data=test, epochs=options.epochs, verbose=2)
        _, accuracy = model.evaluate(test, verbose=0)
        num_tested, names = len(test.records), train.class_names

    model.save(options.output / "images.keras")
    result = {"accuracy": float(accuracy), "num_tested": num_tested, "class_names": names}
    (options.output / "result.json").write_text(json.dumps(result) + "\n")
    print(f"test accuracy {accuracy:.4f} of {num_tested} images in {len(names)} classes")
    print(f"saved {options.output / 'images.keras'}")


def photographs(folder):
    """A folder of pieces of photographs, a class per photograph. No two overlap, so tests use other pixels than training."""
    import numpy as np

    try:
        from PIL import Image
        from skimage import data
    except ImportError as error:
        raise SystemExit(f"{error}: pip install '.[images]' scikit-image") from None

    photos = [data.astronaut, data.brick, data.cat, data.coffee, data.grass, data.gravel, data.immunohistochemistry]
    photos += [data.retina, data.rocket]
    for photo in photos:
        pixels = photo()
        tops, lefts = (range(0, side - PIECE + 1, PIECE) for side in pixels.shape[:2])
        corners = np.random.default_rng(0).permutation([(top, left) for top in tops for left in lefts])
        (folder / photo.__name__).mkdir(parents=True, exist_ok=True)
        for top, left in corners[:PIECES_PER_PHOTO]:
            file = folder / photo.__name__ / f"{top:04d}-{left:04d}.jpg"
            if not file.exists():  # `pack` refuses a source whose files have changed
                Image.fromarray(pixels[top : top + PIECE, left : left + PIECE]).save(file, quality=95)
    return folder


def build_model(train, num_steps):
    """Three convolutions with BatchNormalization, for `uint8` images."""
    layers = [keras.Input(train[0][0].shape[1:], dtype="uint8"), keras.layers.Rescaling(1 / 255)]
    for filters in (16, 32, 64):
        layers += [
            keras.layers.Conv2D(filters, 3, padding="same", use_bias=False),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.Activation("relu"),
            keras.layers.MaxPooling2D(),
        ]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(len(train.class_names), name="classes")]
    return compiled(keras.Sequential(layers), 3e-3, num_steps)


def fine_tuned(path, train, num_steps):
    """A saved model with a new last layer for the classes of `train`, compiled with a small learning rate."""
    model = keras.saving.load_model(path)
    layers = [*model.layers[:-1], keras.layers.Dense(len(train.class_names), name="classes")]
    return compiled(keras.Sequential([keras.Input(train[0][0].shape[1:], dtype="uint8"), *layers]), 1e-3, num_steps)


def compiled(model, learning_rate, num_steps):
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(learning_rate, num_steps))
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


if __name__ == "__main__":
    main()
