"""Keras 3 on its torch backend: Dense, Conv, LSTM and attention, fitted."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from both import report
from keras import layers


def fitted(model, x, y, loss="sparse_categorical_crossentropy"):
    draw = np.random.default_rng(0)
    model.set_weights([(draw.standard_normal(w.shape) * 0.2).astype(w.dtype) for w in model.get_weights()])
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=loss, metrics=["accuracy"])
    history = model.fit(x, y, batch_size=4, epochs=3, verbose=0, shuffle=False)
    return [*history.history["loss"], *np.ravel(model.predict(x, verbose=0))[:6], *model.evaluate(x, y, verbose=0)]


def values(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("float32")


LABELS = np.random.default_rng(2).integers(0, 3, 12)


def dense():
    return fitted(
        keras.Sequential([layers.Input((5,)), layers.Dense(8, "relu"), layers.Dense(3, "softmax")]),
        values(12, 5),
        LABELS,
    )


def conv():
    net = [layers.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten()]
    return fitted(keras.Sequential([*net, layers.Dense(3, "softmax")]), values(12, 8, 8, 1), LABELS)


def lstm():
    return fitted(
        keras.Sequential([layers.Input((6, 4)), layers.LSTM(8), layers.Dense(3, "softmax")]), values(12, 6, 4), LABELS
    )


def attention():
    x = layers.Input((6, 8))
    y = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return fitted(
        keras.Model(x, layers.Dense(3, "softmax")(layers.GlobalAveragePooling1D()(y))), values(12, 6, 8), LABELS
    )


if __name__ == "__main__":
    report(dense=dense, conv=conv, lstm=lstm, attention=attention)
