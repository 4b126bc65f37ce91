"""Layers in words, for comments and tables."""

from __future__ import annotations

from dory_core.ir import AvgPool, Conv, MaxPool, TypedLayer, Window


def describe_window(window: Window) -> str:
    """Return kernel, stride, dilation and padding in the field's notation."""
    text = f"{window.kernel[0]}x{window.kernel[1]}, stride {window.strides[0]}x{window.strides[1]}"
    if window.dilations != (1, 1):
        text += f", dilation {window.dilations[0]}x{window.dilations[1]}"
    if any(window.pads):
        text += ", pads " + " ".join(str(p) for p in window.pads) + " (top left bottom right)"
    return text


def describe_layer(layer: TypedLayer) -> str:
    """Return what a layer computes in one line."""
    kind = layer.layer
    if isinstance(kind, Conv):
        if kind.is_depthwise:
            return f"depthwise Conv {describe_window(kind.window)}"
        groups = f", {kind.groups} groups" if kind.groups > 1 else ""
        return f"Conv {describe_window(kind.window)}{groups}"
    if isinstance(kind, (MaxPool, AvgPool)):
        return f"{kind.kind} {describe_window(kind.window)}"
    return kind.kind
