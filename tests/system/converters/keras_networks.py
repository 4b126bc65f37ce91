"""Architectures in Keras, with random weights.

Loops over steps are unrolled: the converter of TensorFlow 2.21 ends its process on others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

keras = tf.keras
layers = keras.layers
Tensor = Any
Network = Callable[[], Any]

NETWORKS: dict[str, Network] = {}


def network(make: Network) -> Network:
    """Enter an architecture into the table under the name of its function."""
    NETWORKS[make.__name__] = make
    return make


def image(height: int, width: int, channels: int) -> Tensor:
    return keras.Input((height, width, channels), batch_size=1)


def sequence(steps: int, features: int) -> Tensor:
    return keras.Input((steps, features), batch_size=1)


def convolved(
    x: Tensor, channels: int, size: int, stride: int = 1, act: str | None = "relu"
) -> Tensor:
    x = layers.Conv2D(channels, size, stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(act)(x) if act else x


def classified(inputs: Tensor, x: Tensor, classes: int = 10) -> Any:
    """Return the network of a mean over the image and a classifier."""
    return keras.Model(inputs, layers.Dense(classes, "softmax")(layers.GlobalAveragePooling2D()(x)))


@network
def mobilenet_v3_small() -> Any:
    inputs = image(96, 96, 3)
    body = keras.applications.MobileNetV3Small(
        input_shape=(96, 96, 3), weights=None, classes=10, include_preprocessing=False
    )
    return keras.Model(inputs, body(inputs, training=False))


@network
def efficientnet_lite() -> Any:
    inputs = image(64, 64, 3)
    x = convolved(inputs, 16, 3, 2, "relu6")
    for size, stride, expansion, channels in ((3, 1, 1, 8), (3, 2, 6, 12), (5, 2, 6, 20)):
        y = convolved(x, x.shape[-1] * expansion, 1, 1, "relu6") if expansion > 1 else x
        y = layers.DepthwiseConv2D(size, stride, padding="same", use_bias=False)(y)
        y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
        y = convolved(y, channels, 1, act=None)
        x = layers.Add()([x, y]) if x.shape == y.shape else y
    return classified(inputs, x)


@network
def squeeze_and_excitation() -> Any:
    inputs = image(32, 32, 3)
    x = convolved(inputs, 16, 3, 2, "silu")
    gate = layers.GlobalAveragePooling2D(keepdims=True)(x)
    gate = layers.Conv2D(16, 1, activation="sigmoid")(layers.Conv2D(4, 1, activation="silu")(gate))
    return classified(inputs, layers.Multiply()([x, gate]))


@network
def yolo_v8() -> Any:
    """Return C2f blocks, SPPF, an upsampled path, and the head with its distribution of sides."""
    inputs = image(64, 64, 3)

    def c2f(x: Tensor, channels: int) -> Tensor:
        x = convolved(x, channels, 1, act="silu")
        a, b = x[..., : channels // 2], x[..., channels // 2 :]
        y = convolved(convolved(b, channels // 2, 3, act="silu"), channels // 2, 3, act="silu")
        x = layers.Concatenate()([a, b, layers.Add()([b, y])])
        return convolved(x, channels, 1, act="silu")

    x = c2f(convolved(convolved(inputs, 8, 3, 2, "silu"), 16, 3, 2, "silu"), 16)
    fine = c2f(convolved(x, 32, 3, 2, "silu"), 32)
    coarse = c2f(convolved(fine, 32, 3, 2, "silu"), 32)
    pooled = [convolved(coarse, 16, 1, act="silu")]
    for _ in range(2):
        pooled.append(layers.MaxPooling2D(5, 1, "same")(pooled[-1]))
    coarse = convolved(layers.Concatenate()(pooled), 32, 1, act="silu")
    fine = c2f(layers.Concatenate()([layers.UpSampling2D(2)(coarse), fine]), 32)
    found = []
    for x in (fine, coarse):
        pixels = x.shape[1] * x.shape[2]
        sides = layers.Conv2D(32, 1)(convolved(x, 16, 3, act="silu"))
        sides = layers.Softmax()(layers.Reshape((pixels, 4, 8))(sides))
        sides = layers.Reshape((pixels, 4))(layers.Dense(1, use_bias=False)(sides))
        classes = layers.Conv2D(4, 1, activation="sigmoid")(convolved(x, 16, 3, act="silu"))
        found.append(layers.Concatenate()([sides, layers.Reshape((pixels, 4))(classes)]))
    return keras.Model(inputs, layers.Concatenate(axis=1)(found))


def attended(x: Tensor, heads: int) -> Tensor:
    """Return self-attention of a sequence, in products of tensors."""
    steps, size = x.shape[1:]
    split = [
        layers.Permute((2, 1, 3))(layers.Reshape((steps, heads, size // heads))(part))
        for part in (layers.Dense(size)(x) for _ in range(3))
    ]
    scores = keras.ops.matmul(split[0], keras.ops.transpose(split[1], (0, 1, 3, 2)))
    weights = layers.Softmax()(scores * (size // heads) ** -0.5)
    y = layers.Permute((2, 1, 3))(keras.ops.matmul(weights, split[2]))
    return layers.Dense(size)(layers.Reshape((steps, size))(y))


@network
def vision_transformer() -> Any:
    inputs = image(32, 32, 3)
    x = layers.Reshape((64, 32))(layers.Conv2D(32, 4, 4)(inputs))
    for _ in range(2):
        x = layers.Add()([x, attended(layers.LayerNormalization()(x), 2)])
        y = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(32)(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(10)(x))


@network
def multi_head_attention() -> Any:
    """Return Keras' own attention, whose projections are products of three axes."""
    inputs = sequence(16, 32)
    x = layers.MultiHeadAttention(num_heads=2, key_dim=16)(inputs, inputs)
    return keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling1D()(x)))


@network
def mlp_mixer() -> Any:
    inputs = image(32, 32, 3)
    x = layers.Reshape((64, 32))(layers.Conv2D(32, 4, 4)(inputs))
    for _ in range(2):
        y = layers.Dense(64)(layers.Dense(32, activation="relu")(layers.Permute((2, 1))(x)))
        x = layers.Add()([x, layers.Permute((2, 1))(y)])
        x = layers.Add()([x, layers.Dense(32)(layers.Dense(64, activation="relu")(x))])
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


@network
def convnext() -> Any:
    inputs = image(32, 32, 3)
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(24, 4, 4)(inputs))
    for _ in range(2):
        y = layers.LayerNormalization()(layers.DepthwiseConv2D(7, padding="same")(x))
        y = layers.Dense(24)(layers.Dense(96, activation="gelu")(y))
        x = layers.Add()([x, y])
    return classified(inputs, x)


@network
def gru_unrolled() -> Any:
    inputs = sequence(12, 10)
    x = layers.GRU(16, unroll=True)(inputs)
    return keras.Model(inputs, layers.Dense(12, "softmax")(x))


@network
def lstm_unrolled() -> Any:
    inputs = sequence(12, 10)
    x = layers.LSTM(16, unroll=True)(inputs)
    return keras.Model(inputs, layers.Dense(12, "softmax")(x))


@network
def rnn_unrolled() -> Any:
    inputs = sequence(10, 10)
    x = layers.SimpleRNN(16, unroll=True)(inputs)
    return keras.Model(inputs, layers.Dense(12, "softmax")(x))


@network
def temporal_convolutions() -> Any:
    inputs = x = sequence(64, 8)
    for dilation in (1, 2, 4, 8):
        y = layers.Conv1D(16, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = x if x.shape[-1] == 16 else layers.Conv1D(16, 1)(x)
        x = layers.ReLU()(layers.Add()([y, x]))
    return keras.Model(inputs, layers.Dense(6, "softmax")(layers.GlobalAveragePooling1D()(x)))


@network
def activity_recognition() -> Any:
    inputs = sequence(128, 9)
    x = layers.MaxPooling1D(2)(layers.Conv1D(32, 5, activation="relu")(inputs))
    x = layers.SeparableConv1D(32, 3, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(6, "softmax")(layers.Flatten()(x)))


@network
def unet() -> Any:
    inputs = x = image(32, 32, 3)
    skips = []
    for channels in (8, 16):
        x = convolved(convolved(x, channels, 3), channels, 3)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = convolved(x, 32, 3)
    for channels, skip in zip((16, 8), reversed(skips), strict=True):
        x = layers.Conv2DTranspose(channels, 2, 2, padding="same")(x)
        x = convolved(layers.Concatenate()([x, skip]), channels, 3)
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))


@network
def upsampled() -> Any:
    inputs = image(8, 8, 8)
    x = layers.Conv2D(8, 3, padding="same")(layers.UpSampling2D(2, interpolation="nearest")(inputs))
    x = layers.UpSampling2D(2, interpolation="bilinear")(x)
    return keras.Model(inputs, layers.Conv2D(2, 1)(x))


@network
def squeezenet() -> Any:
    inputs = image(48, 48, 3)
    x = layers.MaxPooling2D(3, 2)(layers.Conv2D(16, 3, 2, activation="relu")(inputs))
    for squeezed, channels in ((8, 16), (8, 32)):
        y = layers.Conv2D(squeezed, 1, activation="relu")(x)
        wide = layers.Conv2D(channels, 3, padding="same", activation="relu")(y)
        x = layers.Concatenate()([layers.Conv2D(channels, 1, activation="relu")(y), wide])
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(10, 1)(x))
    return keras.Model(inputs, layers.Softmax()(x))


@network
def shufflenet() -> Any:
    inputs = x = image(16, 16, 8)
    for _ in range(2):
        a, b = x[..., :4], x[..., 4:]
        b = convolved(layers.DepthwiseConv2D(3, padding="same")(convolved(b, 4, 1)), 4, 1)
        x = layers.Reshape((16, 16, 2, 4))(layers.Concatenate()([a, b]))
        x = layers.Reshape((16, 16, 8))(layers.Permute((1, 2, 4, 3))(x))
    return classified(inputs, x, 4)


@network
def grouped_convolution() -> Any:
    inputs = image(16, 16, 8)
    x = layers.Conv2D(16, 3, padding="same", groups=4, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(4)(layers.Flatten()(x)))


@network
def super_resolution() -> Any:
    inputs = image(24, 24, 1)
    x = layers.Conv2D(16, 5, padding="same", activation="tanh")(inputs)
    x = layers.Conv2D(4, 3, padding="same")(x)
    return keras.Model(inputs, layers.Lambda(lambda y: tf.nn.depth_to_space(y, 2))(x))


@network
def autoencoder() -> Any:
    inputs = x = keras.Input((640,), batch_size=1)
    for size in (64, 8, 64):
        x = layers.Dense(size, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(640)(x))


@network
def generator() -> Any:
    inputs = keras.Input((32,), batch_size=1)
    x = layers.Reshape((4, 4, 8))(layers.Dense(128)(inputs))
    x = layers.LeakyReLU()(layers.Conv2DTranspose(16, 4, 2, "same")(x))
    x = layers.Conv2DTranspose(3, 4, 2, "same", activation="tanh")(x)
    return keras.Model(inputs, x)


@network
def activations() -> Any:
    inputs = x = image(8, 8, 4)
    for name in ("elu", "selu", "softplus", "mish", "gelu", "swish", "hard_sigmoid"):
        x = layers.Conv2D(4, 1, activation=name)(x)
    return keras.Model(inputs, layers.PReLU(shared_axes=(1, 2))(x))


@network
def softsign() -> Any:
    inputs = image(8, 8, 4)
    return keras.Model(inputs, layers.Conv2D(4, 1, activation="softsign")(inputs))


@network
def normalised_after_relu() -> Any:
    inputs = image(16, 16, 3)
    x = layers.Conv2D(8, 3, activation="relu")(inputs)
    x = layers.BatchNormalization(gamma_initializer="random_normal")(x)
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalMaxPooling2D()(layers.Conv2D(8, 3)(x))))


@network
def group_normalisation() -> Any:
    inputs = image(8, 8, 8)
    x = layers.GroupNormalization(groups=4)(layers.Conv2D(8, 3, padding="same")(inputs))
    return classified(inputs, x, 4)


@network
def unit_length() -> Any:
    inputs = keras.Input((32,), batch_size=1)
    return keras.Model(inputs, layers.UnitNormalization()(layers.Dense(16)(inputs)))


@network
def several_inputs() -> Any:
    images = keras.Input((8, 8, 3), batch_size=1, name="images")
    values = keras.Input((4,), batch_size=1, name="values")
    x = layers.Flatten()(layers.Conv2D(4, 3)(images))
    x = layers.Concatenate()([x, layers.Dense(4)(values)])
    classes = layers.Dense(3, name="classes")(x)
    chance = layers.Dense(1, activation="sigmoid", name="chance")(x)
    return keras.Model([images, values], [classes, chance])


@network
def separable_residual() -> Any:
    inputs = image(16, 16, 4)
    x = layers.SeparableConv2D(8, 3, padding="same", activation="relu")(inputs)
    y = layers.Subtract()([layers.Conv2D(8, 1)(x), layers.AveragePooling2D(3, 1, "same")(x)])
    x = layers.Maximum()([x, layers.ZeroPadding2D(1)(layers.Cropping2D(1)(y))])
    return classified(inputs, x, 4)
