"""Fine-tune a backbone of KerasHub on photographs: first its new last layer, then all of it.

    pip install keras-hub
    abreast run --devices 4 examples/gallery/finetune_keras_hub.py --photographs photos/   # a folder per class
    abreast run --cpu-devices 2 examples/gallery/finetune_keras_hub.py --preset none

The weights of a preset are downloaded, as KerasHub does. `--preset none` takes a small ResNet with random weights, and without
`--photographs` the pictures are made up: nothing is downloaded. An ordinary Keras script, for any backend.
"""

import argparse

import keras
import keras_hub
import numpy as np

SIZE = 64  # pixels of a made-up picture


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", default="resnet_18_imagenet", help="of KerasHub, or none")
    parser.add_argument("--photographs", help="a folder per class; default: made-up pictures")
    parser.add_argument("--epochs", type=int, default=5, help="of the last layer alone, and then of the whole model")
    parser.add_argument("--batch-size", type=int, default=32, help="rows of one step, over all devices")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    data, test, num_classes = (
        photographs(options.photographs, options.batch_size) if options.photographs else made_up(options.batch_size)
    )
    backbone = small_backbone() if options.preset == "none" else keras_hub.models.Backbone.from_preset(options.preset)
    model = keras.Sequential(
        [
            keras.layers.Rescaling(1 / 255),
            backbone,
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(num_classes),
        ]
    )
    backbone.trainable = False
    train(model, data, options.epochs, learning_rate=1e-2)
    backbone.trainable = True
    train(model, data, options.epochs, learning_rate=1e-4)
    _, accuracy = model.evaluate(**test, verbose=0)
    print(f"test accuracy {accuracy:.4f}")


def train(model, data, epochs, learning_rate):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(learning_rate), loss, metrics=["accuracy"])
    model.fit(**data, epochs=epochs, verbose=2)


def photographs(folder, batch_size):
    """Arguments for `fit`, arguments for `evaluate`, and the number of classes."""
    settings = {"validation_split": 0.2, "subset": "both", "seed": 0, "image_size": (224, 224)}
    data, test = keras.utils.image_dataset_from_directory(folder, batch_size=batch_size, **settings)
    return {"x": data}, {"x": test}, len(data.class_names)


def made_up(batch_size, count=400):
    """The same for pictures of one colour with noise: the colour gives the class."""
    random = np.random.default_rng(0)
    classes = random.integers(0, 3, count)
    colours = np.eye(3)[classes][:, None, None] * 80 + 80
    pictures = np.clip(colours + random.normal(0, 40, (count, SIZE, SIZE, 3)), 0, 255).astype("uint8")
    cut = count * 4 // 5
    data = {"x": pictures[:cut], "y": classes[:cut], "batch_size": batch_size}
    return data, {"x": pictures[cut:], "y": classes[cut:], "batch_size": batch_size}, 3


def small_backbone():
    return keras_hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=[64, 64],
        stackwise_num_blocks=[1, 1],
        stackwise_num_strides=[1, 2],
        block_type="basic_block",
    )


if __name__ == "__main__":
    main()
