"""Train a ResNet-20 on CIFAR-10 with random flips and shifts.

    abreast run --devices 4 examples/gallery/cifar_resnet.py              # downloads CIFAR-10 (170 MB), as Keras does
    abreast run --cpu-devices 2 examples/gallery/cifar_resnet.py --made-up 512 --epochs 2 --depth 8

`--made-up N` takes N pictures of coloured stripes in place of CIFAR-10: nothing is downloaded. An ordinary Keras script, for
any backend. Source of the network: He et al., Deep Residual Learning for Image Recognition (2015), section 4.2.
"""

import argparse

import keras
import numpy as np
from keras import layers

NUM_CLASSES = 10


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--made-up", type=int, metavar="N", help="N pictures of stripes in place of CIFAR-10")
    parser.add_argument("--depth", type=int, default=20, help="6 n + 2 layers: 8, 14, 20, 32, ...")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=128, help="rows of one step, over all devices")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    train, test = stripes(options.made_up) if options.made_up else keras.datasets.cifar10.load_data()
    model = resnet(options.depth)
    num_steps = options.epochs * -(-len(train[0]) // options.batch_size)
    model.compile(
        keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, num_steps), momentum=0.9, weight_decay=1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    settings = {"batch_size": options.batch_size, "verbose": 2}
    model.fit(*train, validation_data=test, epochs=options.epochs, **settings)
    _, accuracy = model.evaluate(*test, **settings)
    print(f"test accuracy {accuracy:.4f}")


def stripes(count):
    """`((train pictures, classes), (test pictures, classes))`: the direction of the stripes gives the class."""
    random = np.random.default_rng(0)
    classes = random.integers(0, NUM_CLASSES, count)
    angles = classes[:, None, None] * np.pi / NUM_CLASSES
    down, right = np.mgrid[:32, :32]
    waves = np.sin(0.8 * (down * np.sin(angles) + right * np.cos(angles)) + random.uniform(0, 6, (count, 1, 1)))
    colours = random.uniform(40, 120, (count, 1, 1, 3))
    pictures = np.clip(128 + waves[..., None] * colours, 0, 255).astype("uint8")
    cut = count * 4 // 5
    return (pictures[:cut], classes[:cut]), (pictures[cut:], classes[cut:])


def resnet(depth):
    """Three groups of `(depth - 2) / 6` blocks, with 16, 32 and 64 filters, for pictures of 32 x 32 pixels."""
    inputs = x = keras.Input((32, 32, 3))
    x = layers.Rescaling(1 / 127.5, -1)(x)
    x = layers.RandomFlip("horizontal")(x)
    x = layers.RandomTranslation(0.125, 0.125, fill_mode="constant")(x)
    x = convolution(x, 16)
    for filters in (16, 32, 64):
        for number in range((depth - 2) // 6):
            x = block(x, filters, strides=2 if filters > 16 and number == 0 else 1)
    return keras.Model(inputs, layers.Dense(NUM_CLASSES)(layers.GlobalAveragePooling2D()(x)))


def block(x, filters, strides):
    short_cut = x if strides == 1 else layers.Conv2D(filters, 1, strides=strides)(x)
    x = convolution(x, filters, strides)
    x = convolution(x, filters, activation=None)
    return layers.ReLU()(layers.Add()([x, short_cut]))


def convolution(x, filters, strides=1, activation="relu"):
    x = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
    return layers.Activation(activation)(layers.BatchNormalization(momentum=0.9)(x))


if __name__ == "__main__":
    main()
