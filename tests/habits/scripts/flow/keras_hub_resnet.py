"""KerasHub: a small ResNet as an image classifier."""

NEEDS = ("keras_hub",)

import keras
import keras_hub

from tests.habits.data import images

x, y = images(rows=12, size=16, channels=3)
backbone = keras_hub.models.ResNetBackbone(
    input_conv_filters=[64],
    input_conv_kernel_sizes=[3],
    stackwise_num_filters=[64],
    stackwise_num_blocks=[1],
    stackwise_num_strides=[1],
    block_type="basic_block",
    image_shape=(16, 16, 3),
)
model = keras_hub.models.ImageClassifier(backbone, num_classes=3, preprocessor=None)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, epochs=1, batch_size=6, verbose=0)
result = {"history": history, "model": model}
