"""How the kernels go through tensors and weights, with a D-cache or without one.

Counts are of loads and stores of the C: words where four bytes are loaded at once. Columns and
copies of the input are scratch memory, in DTCM.
"""

from __future__ import annotations

from dory_core.api import Layer, Tile, caches, ceil_div, ops


def columns(
    layer: Layer,
    tile: Tile,
    weight_bytes: int,
    parameter_words: int,
    word: int,
    together: int,
    store: int,
    loads: int | None = None,
) -> tuple[caches.Access, ...]:
    """A convolution that lays out the columns of a few pixels, then goes through all weights.

    weight_bytes: of the whole block. parameter_words: of one output channel. word: bytes of a load
    from the input. together: pixels. store: outputs that are stored at once. loads: of the input,
    where columns share what is laid out.
    """
    conv = layer.of(ops.Conv)
    groups, fan_in = conv.groups, conv.weights.values[0].size
    pixels = tile.h * tile.w
    blocks = ceil_div(pixels, together)
    column = fan_in * layer.inputs[0].bits // 8
    y_bytes = tile.c_out * layer.output.bits // 8
    step = together * column + (weight_bytes + together * y_bytes) // groups
    elements = ceil_div(fan_in, 4) * 4
    weight_words = weight_bytes // 4 - tile.c_out * parameter_words
    inputs = caches.window_access(layer, tile, pixels * groups * column // word, step)
    if loads is not None:
        inputs = _rows(layer, tile, loads, weight_bytes + tile.w * y_bytes)
    return (
        inputs,
        caches.Access(
            "w",
            blocks * (weight_words + tile.c_out * parameter_words),
            weight_bytes,
            (((blocks - 1) * weight_bytes, step),),
        ),
        caches.Access(
            "scratch",
            pixels * groups * elements // 2 + blocks * weight_words * together,
            2 * together * elements,
        ),
        _stores(layer, tile, store),
    )


def _rows(layer: Layer, tile: Tile, loads: int, other_bytes: int) -> caches.Access:
    """Rows of the input that are laid out once for each row of outputs.

    other_bytes: what is touched between two of them.
    """
    row = tile.x_w * layer.inputs[0].channels * layer.inputs[0].bits // 8
    seen = min(layer.window.kernel[0], tile.x_h) * row
    first = tile.x_h * row
    return caches.Access("x", loads, first, ((max(tile.h * seen - first, 0), seen + other_bytes),))


def channel_blocks(
    layer: Layer,
    tile: Tile,
    weight_bytes: int,
    parameter_words: int,
    line_bytes: int,
    loads: tuple[int, int] | None = None,
) -> tuple[caches.Access, ...]:
    """A depthwise convolution that goes through the whole image for every four channels.

    loads: of inputs and of constants, where they are not taken pixel by pixel.

    A line of the cache holds several such blocks of a pixel, and is loaded for each of them when
    the image does not stay in the cache meanwhile.
    """
    taps, pixels = layer.window.taps, tile.h * tile.w
    blocks = ceil_div(tile.c_out, 4)
    x_pixel, y_pixel = (tile.c_out * t.bits // 8 for t in (layer.inputs[0], layer.output))
    # Bytes of lines that a pixel of a block touches.
    x_near, y_near = min(x_pixel, line_bytes), min(y_pixel, line_bytes)
    x_pass, y_pass = tile.x_h * tile.x_w * x_near, pixels * y_near
    seen_rows = min(layer.window.kernel[0], tile.x_h)
    window = tile.h * seen_rows * tile.x_w * x_near
    rows = seen_rows * tile.x_w * x_near + tile.w * y_near
    image = x_pass + y_pass
    x_bytes, y_bytes = tile.x_h * tile.x_w * x_pixel, pixels * y_pixel
    again_x = max(blocks * x_pass - x_bytes, 0)
    inputs, constants = loads or (
        pixels * taps * blocks * layer.inputs[0].bits // 8,
        blocks * pixels * (taps + 4 * parameter_words),
    )
    return (
        caches.Access(
            "x",
            inputs,
            x_bytes,
            ((again_x, image), (blocks * max(window - x_pass, 0), rows)),
        ),
        caches.Access("w", constants, weight_bytes),
        caches.Access(
            "y", pixels * tile.c_out, y_bytes, ((max(blocks * y_pass - y_bytes, 0), image),)
        ),
    )


def pixels_first(
    layer: Layer, tile: Tile, weight_bytes: int = 0, copied_bytes: int = 0, word: int = 1
) -> tuple[caches.Access, ...]:
    """A depthwise convolution or a pool that computes all channels of a pixel, four at a time.

    copied_bytes: of a copy of the input that it reads instead, 0 for none. word: outputs that are
    stored at once.
    """
    taps, pixels = layer.window.taps, tile.h * tile.w
    words = ceil_div(tile.c_out, 4) * layer.inputs[0].bits // 8
    step = weight_bytes + (taps + 1) * tile.c_out * layer.inputs[0].bits // 8
    reads = caches.window_access(layer, tile, pixels * taps * words, step)
    found = [*copied(reads, copied_bytes), _stores(layer, tile, word)]
    if weight_bytes:
        # Parameters in addition to the taps: multiplier, addend, bias.
        count = pixels * (taps * words + 3 * tile.c_out)
        found.append(
            caches.Access("w", count, weight_bytes, (((pixels - 1) * weight_bytes, step),))
        )
    return tuple(found)


def rows_first(
    layer: Layer, tile: Tile, weight_bytes: int, copied_bytes: int, line_bytes: int
) -> tuple[caches.Access, ...]:
    """A product of matrices that goes through all pixels for every two rows of weights.

    copied_bytes: of a copy of the input that it reads instead, 0 for none. A line of the output
    holds the channels of several such passes.
    """
    pixels, outputs = tile.h * tile.w, tile.h * tile.w * tile.c_out
    x_bytes, pairs = pixels * tile.c_in, ceil_div(tile.c_out, 2)
    y_bytes = pixels * tile.c_out * layer.output.bits // 8
    y_pass = min(y_bytes, pixels * line_bytes)
    distance = y_pass + (0 if copied_bytes else x_bytes)
    reads = caches.Access("x", pairs * x_bytes // 4, x_bytes, (((pairs - 1) * x_bytes, distance),))
    products = pairs * ceil_div(pixels, 2) * tile.c_in // 2
    return (
        *copied(reads, copied_bytes),
        caches.Access("w", products + pairs * 2 * tile.c_in, weight_bytes),
        caches.Access("y", outputs, y_bytes, ((max(pairs * y_pass - y_bytes, 0), distance),)),
    )


def fully_connected(
    layer: Layer, tile: Tile, weight_bytes: int, together: int
) -> tuple[caches.Access, ...]:
    """A fully connected layer whose inputs are loaded once for ``together`` outputs."""
    x = layer.inputs[0]
    blocks = ceil_div(tile.c_out, together)
    distance = x.size_bytes + weight_bytes // blocks
    again = ((blocks - 1) * x.size_bytes, distance)
    return (
        caches.Access("x", blocks * ceil_div(x.size_bytes, 4), x.size_bytes, (again,)),
        caches.Access("w", weight_bytes // 4, weight_bytes),
        _stores(layer, tile),
    )


def copied(reads: caches.Access, copied_bytes: int) -> tuple[caches.Access, ...]:
    """Return the reads of a tensor, or those of its copy in scratch memory and the copying."""
    if not copied_bytes:
        return (reads,)
    words = ceil_div(copied_bytes, 4)
    return (
        caches.Access("x", words, reads.bytes),
        caches.Access("scratch", reads.count + words, copied_bytes),
    )


def _stores(layer: Layer, tile: Tile, word: int = 1) -> caches.Access:
    pixels = tile.h * tile.w
    stores = ceil_div(pixels * tile.c_out, word)
    return caches.Access("y", stores, pixels * tile.c_out * layer.output.bits // 8)
