"""Which examples run, on which backends, and the sizes that are made small in their texts. Imports no framework."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.harness.client import BACKENDS
from tests.keras_examples import made_up

_ALL = BACKENDS
_TENSORFLOW = ("tensorflow",)
_SIZES = (
    (r"^(\s*)(batch_size|BATCH_SIZE) = (1[5-9]|[2-9]\d|\d{3,})\b", r"\1\2 = 14"),
    (r"^(\s*)((?:num_)?epochs|(?:NUM_)?EPOCHS) = \d+", r"\1\2 = 2"),
)
# A parallel `map` of `tf.data` that draws numbers does not repeat.
_ONE_BY_ONE = (r",?\s*num_parallel_calls=[\w.]+", "")
# Keras 3.15 takes the values of an `OrderedDict`, which TensorFlow's CSV files give, in their own order, not by name.
_BY_NAME = (r"return features, target", "return dict(features), target")
_NO_WEIGHTS = (r'weights="imagenet"', "weights=None")


@dataclass(frozen=True)
class Example:
    """`name` is category and file; `edits` are pairs of a pattern of a line and its replacement."""

    name: str
    backends: tuple[str, ...] = _ALL
    edits: tuple[tuple[str, str], ...] = ()
    files: str | None = None  # what is made up before it starts


EXAMPLES = (
    Example("vision/mnist_convnet"),
    Example("vision/autoencoder"),
    Example("vision/knowledge_distillation"),
    Example("vision/siamese_contrastive", edits=((r"30000", "100"),)),
    # As published it compares labels with themselves in one dimension, and plain Keras refuses it.
    Example(
        "vision/supervised_contrastive_learning", edits=((r"ops\.squeeze\(labels\)", "ops.reshape(labels, (-1, 1))"),)
    ),
    Example(
        "vision/convmixer",
        edits=(
            (r"filters=256", "filters=16"),
            (r"depth=8", "depth=2"),
            (r"^visualization_plot\(.*$", ""),
            (r"^idx = 26", "idx = 5"),
        ),
    ),
    Example("vision/cct"),
    Example("vision/eanet", edits=((r"num_transformer_blocks = 8", "num_transformer_blocks = 2"),)),
    Example(
        "vision/mlp_image_classification",
        edits=((r"^num_blocks = 4", "num_blocks = 1"), (r"^embedding_dim = 256", "embedding_dim = 32")),
    ),
    Example(
        "vision/image_classification_with_vision_transformer",
        edits=(
            (r"^transformer_layers = 8", "transformer_layers = 2"),
            (r"^    2048,$", "    64,"),
            (r"^    1024,$", "    32,"),
        ),
    ),
    Example("vision/token_learner", edits=((r"^NUM_LAYERS = 4", "NUM_LAYERS = 2"), (r"40000", "100"))),
    Example(
        "vision/attention_mil_classification",
        edits=(
            (r"^BAG_COUNT = \d+", "BAG_COUNT = 40"),
            (r"^VAL_BAG_COUNT = \d+", "VAL_BAG_COUNT = 20"),
            (r"^ENSEMBLE_AVG_COUNT = \d+", "ENSEMBLE_AVG_COUNT = 1"),
        ),
    ),
    Example("vision/conv_lstm", edits=((r"filters=64", "filters=4"),)),
    Example(
        "vision/gradient_centralization",
        edits=((r"input_shape ?= ?\(300, 300, 3\)", "input_shape=(40, 40, 3)"), (r"^.*Conv2D\(.*64.*$", "")),
    ),
    Example("vision/learnable_resizer", edits=((r"\(300, 300\)", "(40, 40)"), (r"\(150, 150\)", "(32, 32)"))),
    Example(
        "vision/oxford_pets_image_segmentation",
        edits=(
            (r"^img_size = .*", "img_size = (32, 32)"),
            (r"max_dataset_len=1000", "max_dataset_len=40"),
            (r"val_samples = 1000", "val_samples = 20"),
        ),
        files="PetImages",
    ),
    Example(
        "vision/image_classification_from_scratch",
        edits=((r"^image_size = .*", "image_size = (32, 32)"), (r"\[256, 512, 728\]", "[16, 24]")),
        files="PetImages",
    ),
    Example(
        "generative/pixelcnn",
        edits=((r"^n_residual_blocks = 5", "n_residual_blocks = 1"), (r"filters=128", "filters=8")),
    ),
    Example(
        "generative/text_generation_with_miniature_gpt",
        edits=((r"^vocab_size = .*", "vocab_size = 60"), (r"^maxlen = .*", "maxlen = 20")),
        files="aclImdb",
    ),
    Example("nlp/addition_rnn", edits=((r"^TRAINING_SIZE = .*", "TRAINING_SIZE = 100"),)),
    Example("nlp/bidirectional_lstm_imdb", edits=((r"^maxlen = .*", "maxlen = 30"),)),
    Example("nlp/lstm_seq2seq", edits=((r"^latent_dim = .*", "latent_dim = 16"),)),
    Example(
        "nlp/neural_machine_translation_with_transformer",
        edits=(
            (r"^vocab_size = .*", "vocab_size = 100"),
            (r"^embed_dim = .*", "embed_dim = 16"),
            (r"^latent_dim = .*", "latent_dim = 32"),
        ),
    ),
    Example("structured_data/collaborative_filtering_movielens"),
    Example(
        "structured_data/deep_neural_decision_forests",
        edits=(
            (r"^num_trees = 25", "num_trees = 4"),
            (r"^depth = 10", "depth = 4"),
            # Keras 3.15 takes the values of a dictionary with more names than the model in their order.
            (r"\(features, target_label", "({name: features[name] for name in FEATURE_NAMES}, target_label"),
        ),
    ),
    Example(
        "structured_data/tabtransformer",
        edits=(
            (r"^import keras$", "import keras, tensorflow as tf"),
            _BY_NAME,
        ),
    ),
    Example("timeseries/timeseries_anomaly_detection"),
    Example("timeseries/timeseries_classification_from_scratch"),
    Example(
        "timeseries/timeseries_classification_transformer",
        edits=((r"num_transformer_blocks=4", "num_transformer_blocks=1"),),
    ),
    Example("timeseries/timeseries_weather_forecasting"),
    Example("generative/vae", _TENSORFLOW),
    Example("generative/wgan_gp", _TENSORFLOW),
    Example("generative/lstm_character_level_text_generation", _ALL),
    Example("keras_recipes/antirectifier", _ALL),
    Example("keras_recipes/endpoint_layer_pattern", _TENSORFLOW),
    Example("keras_recipes/subclassing_conv_layers", _ALL),
    Example("keras_recipes/trainer_pattern", _TENSORFLOW),
    Example("keras_recipes/tensorflow_numpy_models", _TENSORFLOW),
    Example(
        "structured_data/imbalanced_classification",
        _ALL,
        ((r"/Users/fchollet/Downloads/creditcard.csv", "creditcard.csv"),),
        files="creditcard.csv",
    ),
    Example("structured_data/structured_data_classification_from_scratch", _TENSORFLOW),
    Example("structured_data/structured_data_classification_with_feature_space", _TENSORFLOW),
    Example("nlp/pretrained_word_embeddings", _TENSORFLOW),
    Example("nlp/text_classification_from_scratch", _TENSORFLOW),
    Example("vision/cutmix", _TENSORFLOW),
    Example(
        "vision/mixup",
        _TENSORFLOW,
        (_ONE_BY_ONE, (r"keras\.backend\.shape", "keras.ops.shape"), (r"^val_samples = 2000", "val_samples = 40")),
    ),
    Example("vision/involution", _TENSORFLOW),
    Example(
        "vision/metric_learning",
        _TENSORFLOW,
        (
            (r"num_batches=1000", "num_batches=5"),
            (r"0, 50000", "0, 150"),
            (r"self\.num_batches", "self.number"),  # Keras 3.15 has a property of this name
            # As later versions of the example do, since Keras 3.15 has neither.
            (r"self\.compiled_loss\(", "self.compute_loss(None, "),
            (r"self\.compiled_metrics\.update_state\(.*\)", "self.metrics[0].update_state(loss)"),
        ),
    ),
    Example(
        "vision/perceiver_image_classification",
        _TENSORFLOW,
        (
            (r"^latent_dim = 256", "latent_dim = 16"),
            (r"^    256  # Embedding", "    16  # Embedding"),
            (r"^num_transformer_blocks = 4", "num_transformer_blocks = 1"),
        ),
    ),
    Example(
        "vision/semantic_image_clustering",
        _TENSORFLOW,
        (
            (r"batch_size=512", "batch_size=14"),
            (r"representation_dim = 512", "representation_dim = 16"),
            (r"projection_units = 128", "projection_units = 8"),
            (r"y=labels", "y=[labels, labels]"),
            (r"for j in range\(num_images\)", "for j in range(min(num_images, len(cluster_instances)))"),
        ),
    ),
    Example("vision/shiftvit", _TENSORFLOW),
    Example(
        "vision/simsiam",
        _TENSORFLOW,
        (
            _ONE_BY_ONE,
            (r"range\(25\)", "range(14)"),
            (r"^PROJECT_DIM = 2048", "PROJECT_DIM = 16"),
            (r"^LATENT_DIM = 512", "LATENT_DIM = 8"),
        ),
    ),
    Example("vision/swim_transformers", _TENSORFLOW, ((r"numerical_utils\.", ""),)),
    Example(
        "generative/dcgan_overriding_train_step",
        _TENSORFLOW,
        (
            (r"batch_size=32", "batch_size=14"),
            (r"\((64|128|256|512), kernel_size", "(8, kernel_size"),
            (r"8 \* 8 \* 128", "8 * 8 * 8"),
            (r"\(8, 8, 128\)", "(8, 8, 8)"),
        ),
    ),
    # As published it draws noise for `batch_size` rows, whichever the batch has.
    Example(
        "generative/ddim",
        _TENSORFLOW,
        (
            (r"^image_size = 64", "image_size = 16"),
            (r"^dataset_repetitions = 5", "dataset_repetitions = 1"),
            (r"^plot_diffusion_steps = 20", "plot_diffusion_steps = 2"),
            (r"^kid_diffusion_steps = 5", "kid_diffusion_steps = 2"),
            (r"^widths = .*", "widths = [8, 8, 16]"),
            (r"^block_depth = 2", "block_depth = 1"),
            (r"(shape=\(|num_images=)batch_size", r"\1ops.shape(images)[0]"),
            (r"^        checkpoint_callback,", ""),  # Keras 3.15 saves no weights of a model that was never built
            (r"^model\.load_weights.*", ""),
            _NO_WEIGHTS,
        ),
    ),
    Example(
        "generative/ddpm",
        _TENSORFLOW,
        (
            _ONE_BY_ONE,
            (r"^total_timesteps = 1000", "total_timesteps = 6"),
            (r"^img_size = 64", "img_size = 16"),
            (r"^first_conv_channels = 64", "first_conv_channels = 8"),
            (r"^channel_multiplier = .*", "channel_multiplier = [1, 2, 4]"),
            (r"^num_res_blocks = 2", "num_res_blocks = 1"),
            (r"^model\.ema_network\.load_weights.*", ""),
        ),
    ),
    Example(
        "generative/cyclegan",
        _TENSORFLOW,
        (
            _ONE_BY_ONE,
            (r"^batch_size = 1$", "batch_size = 6"),
            (r"\(286, 286\)", "(20, 20)"),
            (r"\(256, 256, 3\)", "(16, 16, 3)"),
            (r"filters=64", "filters=4"),
            (r"num_residual_blocks=9", "num_residual_blocks=1"),
            (r"ops\.convert_to_tensor\(padding_tensor\)", "padding_tensor"),
            # Keras 3.15 saves no weights of a model that was never built.
            (r"plotter, model_checkpoint_callback", "plotter"),
            (r"^cycle_gan_model\.load_weights.*", ""),
        ),
    ),
    Example(
        "vision/semisupervised_simclr",
        _TENSORFLOW,
        (
            (r"^unlabeled_dataset_size = .*", "unlabeled_dataset_size = 50"),
            (r"^labeled_dataset_size = .*", "labeled_dataset_size = 20"),
            (r"^image_size = 96", "image_size = 40"),
            (r"^width = 128", "width = 8"),
            (r', dtype="uint8"', ""),  # which makes the scale, 1 / 255, zero
        ),
    ),
    Example(
        "vision/zero_dce",
        _TENSORFLOW,
        (
            (r"^IMAGE_SIZE = 256", "IMAGE_SIZE = 32"),
            (r"^MAX_TRAIN_IMAGES = 400", "MAX_TRAIN_IMAGES = 44"),
            (r"^        32, \(3, 3\)", "        4, (3, 3)"),
        ),
        files="lol_dataset",
    ),
    Example(
        "vision/captcha_ocr",
        _TENSORFLOW,
        (
            (r"^img_width = 200", "img_width = 40"),
            (r"^img_height = 50", "img_height = 16"),
            (r"range\(16\)", "range(14)"),
            (r"LSTM\(\d+", "LSTM(8"),
            (r", dropout=0\.25", ""),
            (r'name="image"\)\.input', 'name="image").output'),
        ),
        files="captcha",
    ),
    Example(
        "vision/image_captioning",
        _TENSORFLOW,
        (
            (r"^IMAGE_SIZE = .*", "IMAGE_SIZE = (32, 32)"),
            (r"^VOCAB_SIZE = .*", "VOCAB_SIZE = 60"),
            (r"^SEQ_LENGTH = .*", "SEQ_LENGTH = 10"),
            (r"^(EMBED|FF)_DIM = .*", r"\1_DIM = 16"),
            (r"num_train_steps // 15", "num_train_steps // 2"),
            _NO_WEIGHTS,
        ),
        files="Flickr8k.token.txt",
    ),
    Example(
        "vision/deit",
        _TENSORFLOW,
        (
            _ONE_BY_ONE,
            (r"^RESOLUTION = 224", "RESOLUTION = 32"),
            (r"\(2, 224, 224, 3\)", "(2, 32, 32, 3)"),
            (r"^PROJECTION_DIM = 192", "PROJECTION_DIM = 12"),
            (r"^NUM_LAYERS = 12", "NUM_LAYERS = 2"),
            (r"^bit_teacher_flowers = ", f"{made_up.TEACHER}bit_teacher_flowers = "),
        ),
    ),
    Example(
        "vision/reptile",
        _TENSORFLOW,
        (
            (r"^meta_iters = 2000", "meta_iters = 3"),
            (r"filters=64", "filters=8"),
            (r"^window_length = 100", "window_length = 2"),
        ),
    ),
    Example(
        "vision/super_resolution_sub_pixel",
        edits=(
            (r"^crop_size = 300", "crop_size = 30"),
            (r"^batch_size = 8", "batch_size = 6"),
            (r"Conv2D\((64|32), ", "Conv2D(8, "),
            (r'"/tmp/', '"'),
            (r', mode="L"', ""),  # gone from Pillow 13
            (r"\[50:60\]", "[:2]"),
        ),
    ),
    Example(
        "vision/pointnet_segmentation",
        edits=(
            _ONE_BY_ONE,
            (r"/tmp/\.keras/datasets/", ""),
            (r"^NUM_SAMPLE_POINTS = 1024", "NUM_SAMPLE_POINTS = 32"),
            (r"\[300\]", "[3]"),
            (r"filters=(512|1024|2048)", "filters=16"),
            (r"filters=(64|128|256)", "filters=8"),
            (r"num_features=128", "num_features=8"),
        ),
    ),
    Example(
        "nlp/end_to_end_mlm_with_bert",
        _TENSORFLOW,
        (
            (r"MAX_LEN = 256", "MAX_LEN = 16"),
            (r"VOCAB_SIZE = 30000", "VOCAB_SIZE = 40"),
            (r"(EMBED_DIM|FF_DIM) = 128", r"\1 = 16"),
            (r"NUM_HEAD = 8", "NUM_HEAD = 2"),
        ),
    ),
    Example(
        "nlp/ner_transformers",
        edits=(
            (r"keras\.ops\.backend\.shape", "keras.ops.shape"),
            (r"keras\.backend\.cast", "keras.ops.cast"),
            (r"new_shape=", "newshape="),
            (r"^vocab_size = 20000", "vocab_size = 60"),
        ),
    ),
    Example(
        "audio/transformer_asr",
        _TENSORFLOW,
        (
            (r"pad_len = 2754", "pad_len = 40"),
            (r"^max_target_len = 200", "max_target_len = 30"),
            (r"bs=64", "bs=14"),
            (r"num_hid=200", "num_hid=16"),
            (r"num_feed_forward=400", "num_feed_forward=16"),
            (r"num_layers_enc=4,\n    num_layers_dec=1,\n    num_classes=34", "num_layers_enc=1, num_classes=34"),
        ),
    ),
    Example(
        "structured_data/movielens_recommendations_transformers",
        _TENSORFLOW,
        (
            (r"batch_size=265", "batch_size=14"),
            (r"\[256, 128\]", "[16, 8]"),
            _BY_NAME,
        ),
    ),
    Example(
        "timeseries/eeg_signal_classification",
        edits=(
            (r"filters=\d+", "filters=8"),
            (r"Dense\((4096|1024)", "Dense(16"),
            (r"^        2048, activation", "        16, activation"),
        ),
        files="eeg-data.csv",
    ),
    Example("timeseries/timeseries_traffic_forecasting", _TENSORFLOW, ((r"^lstm_units = 64", "lstm_units = 8"),)),
)


# Examples and backends that differ, and why.
REASONS: dict[tuple[str, str], str] = {
    (
        "vision/learnable_resizer",
        "torch",
    ): "rounding that DenseNet121 makes large: in float64, the loss differs by 2e-12 in the "
    "first epoch, by 5e-8 in the second",
    (
        "vision/metric_learning",
        "tensorflow",
    ): "the first axis of its data is the two of a pair, not rows, and abreast cuts it among the devices",
}


def find(folder: Path, name: str) -> Path | None:
    """An example's file in a clone of keras-io; its `examples` folder may have more levels."""
    return next(iter(sorted(folder.rglob(f"{name}.py"))), None)


def edits(path: str) -> tuple[tuple[str, str], ...]:
    return (*_SIZES, *_of(path).edits)


def prepare(path: str) -> None:
    """Write the files that an example expects in its folder."""
    needed = _of(path).files
    if needed is not None:
        made_up.get_file(needed)


def _of(path: str) -> Example:
    name = "/".join(Path(path).with_suffix("").parts[-2:])
    return next(example for example in EXAMPLES if example.name == name)
