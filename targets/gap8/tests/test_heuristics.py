"""Objective terms of the GAP8 target: those of the paper, and those of its kernels."""

from __future__ import annotations

from dory_gap8 import plugin
from gap8_layers import candidate, context, conv, kernels_for

from dory_core.api import Kernel, Layer, Term, Tile
from dory_core.testing import bind_layer, make_tile, with_border


def all_terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return the terms of the target, then those of the kernel for the tile and its border tile."""
    [bound] = bind_layer(layer, [kernel]).kernels
    return [
        *plugin.dory_objective_terms(context(), layer, kernel, tile),
        *bound.terms(layer, tile),
    ]


def test_heuristics_are_those_of_the_paper_and_hold_for_the_border_tile() -> None:
    layer = conv(16, 30, 20, 3)
    kernel = candidate(layer, "conv")
    tile = with_border(layer, make_tile(layer, 16, 8, 12))
    terms = all_terms(layer, kernel, tile)
    values = {t.name: (t.weight, t.value) for t in terms}
    bytes_ = 10 * 13 * 16 + 8 * 12 * 16 + 16 * 144
    assert values == {
        "UTILISATION": (0.5, bytes_),
        "PAR_BALANCE": (1e6, 7),
        "HIDE_IM2COL": (1e2, 16),
        "MATMUL_W": (1e6, 1),
        "MATMUL_CH": (1e6, 3),
        "PAR_BALANCE_BORDER": (1e6, 3),
        "HIDE_IM2COL_BORDER": (1e2, 14),
        "MATMUL_W_BORDER": (1e6, 1),
        "MATMUL_CH_BORDER": (1e6, 1),
    }


def test_depthwise_balances_channels() -> None:
    layer = conv(16, 16, 20, 3, groups=16)
    tile = with_border(layer, make_tile(layer, 8, 8, 12))
    kernel = kernels_for("depthwise")[-1]
    terms = all_terms(layer, kernel, tile)
    assert [(t.name, t.value) for t in terms[1:]] == [("PAR_BALANCE", 7), ("PAR_BALANCE_BORDER", 7)]


def test_depthwise_on_channels_last_likes_whole_strips_and_words() -> None:
    """A strip has four rows, a word four channels; the channels of all strips are shared."""
    layer = conv(30, 30, 22, 3, groups=30)
    tile = with_border(layer, make_tile(layer, 16, 12, 12))
    terms = all_terms(layer, kernels_for("depthwise")[0], tile)
    by_name = {t.name: t for t in terms}
    by_name.pop("UTILISATION")
    assert {t.name: (t.weight, t.value) for t in by_name.values()} == {
        "PAR_BALANCE": (1e6, (16 * 3 - 1) % 8),
        "STRIP": (1e6, 3),
        "WORD": (1e6, 3),
        "WALK": (1e6, 3),
        "PAR_BALANCE_BORDER": (1e6, (14 * 3 - 1) % 8),
        "STRIP_BORDER": (1e6, 1),
        "WORD_BORDER": (1e6, 1),
        "WALK_BORDER": (1e6, 2),
    }


def test_inputs_in_registers_like_whole_strips_and_few_tiles() -> None:
    """Tiles are counted once, not for the border too; parts of the channels load inputs again."""
    layer = conv(1, 32, 100, 5, stride=2)
    tile = with_border(layer, make_tile(layer, 16, 16, 34))
    terms = all_terms(layer, candidate(layer, "held"), tile)
    assert {t.name: (t.weight, t.value) for t in terms[1:]} == {
        "PAR_BALANCE": (1e6, (4 * 34 - 1) % 8),
        "STRIP": (1e6, 3),
        "HIDE_LOADS": (1e6, -2 * (13 * 50 // (25 * 8))),
        "TILES": (1e6, -2 * 4 * 2),
        "PAR_BALANCE_BORDER": (1e6, (1 * 16 - 1) % 8),
        "STRIP_BORDER": (1e6, 1),
    }
