"""Attention as tables: the same numbers as the pictures, in full float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from miniinfer.figures.attention.plots import axis_labels
from miniinfer.figures.attention.words import PositionText
from miniinfer.figures.sampling.words import TokenText
from miniinfer.trace.attention.head_kinds import KINDS, HeadScores
from miniinfer.trace.attention.one_head import MAP_NAMES, HeadMaps, HeadRow
from miniinfer.trace.attention.rotation import Rotation
from miniinfer.trace.records import FloatArray
from miniinfer.trace.shift import Shift


def row_table(
    row: HeadRow, maps: HeadMaps, text: PositionText, *, hide_first: bool, strongest: int | None = None
) -> pd.DataFrame:
    """One line a key, from q . k to the weight; later keys too, as far as the window shows them. strongest: only so
    many, those with the largest weights, the largest first.

    "÷ √D" is before the mask, "masked" after it: minus infinity where the row must not look.
    """
    named = dict(zip(MAP_NAMES, (row.products, row.scaled, row.scaled, row.pattern), strict=True))
    at, exps = row.position - maps.row_start, row.exps
    if maps.cell == 1 and 0 <= at < len(maps.maps["pattern"]):
        first = row.position + 1 - maps.key_start
        named = {name: np.concatenate((seen, maps.maps[name][at, first:])) for name, seen in named.items()}
        exps = np.concatenate((exps, np.exp(maps.maps["masked"][at, first:])))
    keys = np.arange(1 if hide_first and len(exps) > 1 else 0, len(exps))
    if strongest is not None:
        keys = keys[np.argsort(-named["pattern"][keys], kind="stable")[:strongest]]
    columns = {"q·k": "products", "÷ √D": "scaled", "masked": "masked"}
    return pd.DataFrame({
        "key": keys, "token": [text(j) for j in keys.tolist()],
        **{title: named[name][keys].astype(np.float64) for title, name in columns.items()},
        "exp(s − max)": exps[keys].astype(np.float64), "weight": named["pattern"][keys].astype(np.float64),
    })  # fmt: skip


def recorded_row_table(weights: FloatArray, text: PositionText, *, hide_first: bool) -> pd.DataFrame:
    """What a recorded run has of a row: weights of 8 bits."""
    first = 1 if hide_first and len(weights) > 1 else 0
    return pd.DataFrame([
        {"key": j, "token": text(j), "weight, 8 bits": float(weights[j])} for j in range(first, len(weights))
    ])


def maps_table(maps: HeadMaps, length: int, text: PositionText) -> pd.DataFrame:
    """The pictures, one line a cell that is not masked away; pooled cells hold the largest number in them."""
    rows, keys = axis_labels(maps, length, text)
    at_row, at_key = np.nonzero(np.isfinite(maps.maps.get("masked", maps.maps["pattern"])))
    frame = pd.DataFrame({"query": [rows[i] for i in at_row], "key": [keys[j] for j in at_key]})
    for name in MAP_NAMES:
        if name in maps.maps:
            frame[{"products": "q·k", "scaled": "÷ √D", "pattern": "weight"}.get(name, name)] = maps.maps[name][
                at_row, at_key
            ]
    return frame


def mix_table(row: HeadRow, order: Sequence[int], text: PositionText) -> pd.DataFrame:
    """One line a position: its weight, its value's length, and how much of z it makes."""
    lengths, parts = np.linalg.norm(row.values, axis=1), np.linalg.norm(row.mixed, axis=1)
    shares = row.shares
    return pd.DataFrame([
        {
            "position": j, "token": text(j), "weight": float(row.pattern[j]), "length of v": float(lengths[j]),
            "length of weight × v": float(parts[j]), "share of z": float(shares[j]),
        }
        for j in order
    ])


def heads_added_table(row: HeadRow) -> pd.DataFrame:
    """One line a head of the layer."""
    return pd.DataFrame({
        "head": range(len(row.outputs)), "length of z": np.linalg.norm(row.all_z, axis=1),
        "length of what it adds": row.outputs,
    })


def rotation_table(rotation: Rotation) -> pd.DataFrame:
    """One line a pair of dimensions (i, i + D/2)."""
    half = len(rotation.frequencies)
    angles_q = rotation.position * rotation.frequencies
    columns: dict[str, object] = {
        "pair": range(half), "dimensions": [f"{i}, {i + half}" for i in range(half)],
        "radians a position": rotation.frequencies, "positions a turn": 2 * np.pi / rotation.frequencies,
        "q turned (rad)": angles_q, "k turned (rad)": rotation.key * rotation.frequencies,
    }
    for name, values in (
        ("q before", rotation.q_before), ("q after", rotation.q_after),
        ("k before", rotation.k_before), ("k after", rotation.k_after),
    ):  # fmt: skip
        columns[f"{name} x"], columns[f"{name} y"] = values[:, 0], values[:, 1]
    columns["gives to q·k"], columns["without RoPE"] = rotation.products, rotation.products_before
    return pd.DataFrame(columns)


def distances_table(rotation: Rotation) -> pd.DataFrame:
    """One line a distance."""
    return pd.DataFrame({"distance": rotation.distances.astype(int), "q·k / √D": rotation.scores})


def heads_table(scores: HeadScores, group_size: int) -> pd.DataFrame:
    """One line a head: its name and its mean weight on what each kind looks at."""
    num_layers, num_heads = next(iter(scores.scores.values())).shape
    layers, heads = np.indices((num_layers, num_heads)).reshape(2, -1)
    frame = pd.DataFrame({
        "layer": layers, "head": heads, "KV head": heads // group_size,
        "kind": [scores.kind_of(layer, head) for layer, head in zip(layers.tolist(), heads.tolist(), strict=True)],
    })
    for kind in KINDS:
        frame[kind] = scores.scores[kind].reshape(-1)
    return frame


def shift_table(shift: Shift, token_ids: Sequence[int], text: TokenText) -> pd.DataFrame:
    """One line a token: before and after, and the change in percentage points."""
    return pd.DataFrame([
        {
            "token": text(i), "id": i, "before": float(shift.before[i]), "after": float(shift.after[i]),
            "change (pp)": 100 * float(shift.change[i]), "rank before": shift.rank(i),
            "rank after": shift.rank(i, after=True),
        }
        for i in token_ids
    ])


def each_off_table(moved: FloatArray, best: Sequence[Sequence[str]], first_layer: int = 0) -> pd.DataFrame:
    """moved [layers, H]: probability that changed hands with this head off; best: the likeliest token then."""
    layers, heads = np.indices(moved.shape).reshape(2, -1)
    return pd.DataFrame({
        "layer": layers + first_layer, "head": heads, "moved (pp)": 100 * moved.reshape(-1),
        "likeliest then": [best[layer][head] for layer, head in zip(layers.tolist(), heads.tolist(), strict=True)],
    })
