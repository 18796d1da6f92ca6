"""Inside a step as tables: the twins of the figures, and what a stage read and wrote."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from miniinfer.figures.inside.picture import histogram, number
from miniinfer.figures.sampling.words import TokenText
from miniinfer.trace.capture import StageTensor
from miniinfer.trace.inside.identities import Identity
from miniinfer.trace.inside.logit_lens import LogitLens
from miniinfer.trace.inside.records import StageLook, TensorFacts, TensorView
from miniinfer.trace.inside.two_ways import TwoWays
from miniinfer.trace.records import FloatArray


def shape_words(facts: TensorFacts) -> str:
    """T E = 5 × 576."""
    sizes = " × ".join(f"{n:,}" for n in facts.shape)
    return f"{facts.letters} = {sizes}" if facts.letters else sizes


def fields_table(look: StageLook) -> pd.DataFrame:
    """One row a field that the stage read or wrote."""
    frame = pd.DataFrame([
        {
            "": "in" if f.role == "reads" else "out", "field": f.name,
            "shape or content": shape_words(f.facts).replace(" × ", "×") if f.facts else f.text,
            "not finite": f.facts.num_nan + f.facts.num_inf if f.facts else None,
            "norm": f.facts.norm if f.facts and not f.facts.names else None,
            "min": f.facts.smallest if f.facts else None, "max": f.facts.largest if f.facts else None,
        }
        for f in look.fields
    ])  # fmt: skip
    # As a rule all is finite, and the column would only take room.
    return frame if frame["not finite"].fillna(0).any() else frame.drop(columns="not finite")


def facts_words(facts: TensorFacts) -> str:
    """Norm, extremes, mean and the count of what is not finite, of a whole tensor; of names only the extremes."""
    if facts.names:
        return f"min {facts.smallest:,.0f} · max {facts.largest:,.0f} · whole numbers that name something"
    words = (
        f"norm {number(facts.norm)} · min {number(facts.smallest)} · max {number(facts.largest)} · "
        f"mean {number(facts.mean)} · "
    )
    bad = facts.num_nan + facts.num_inf
    words += f"{bad:,} not finite ({facts.num_nan:,} NaN)" if bad else "all finite"
    return words + (f", {facts.num_hidden:,} hidden or cut (−∞)" if facts.num_hidden else "")


def corner_table(view: TensorView, row: int, column: int, rows: int, columns: int) -> pd.DataFrame:
    """The exact numbers from one place on; row and column count in the matrix, from 0."""
    part = view.values[row : row + rows, column : column + columns]
    names = [str(column + i) for i in range(part.shape[1])]
    frame = pd.DataFrame(part.astype(np.float64), columns=names)
    frame.insert(0, view.row_unit or "row", [view.row_start + row + i for i in range(len(part))])
    return frame


def matrix_table(view: TensorView) -> pd.DataFrame:
    """The whole matrix that is looked at."""
    return corner_table(view, 0, 0, view.values.shape[0], view.values.shape[1])


def histogram_table(view: TensorView) -> pd.DataFrame:
    counts, edges = histogram(view.values)
    return pd.DataFrame({"from": edges[:-1], "to": edges[1:], "values": counts.astype(int)})


def watch_table(tensors: Sequence[StageTensor], coordinate: int) -> pd.DataFrame:
    """One row a layer: the norm of the row, its extremes, and one coordinate of it."""
    return pd.DataFrame([
        {
            "layer": t.layer, "norm": float(np.linalg.norm(_finite(t).astype(np.float64))),
            f"value {coordinate}": float(t.values.ravel()[coordinate]),
            "min": float(_finite(t).min()), "max": float(_finite(t).max()),
        }
        for t in tensors
    ])  # fmt: skip


def _finite(tensor: StageTensor) -> FloatArray:
    found = tensor.values[np.isfinite(tensor.values)]
    return found if found.size else np.array([np.nan], np.float32)


def stream_table(norms: dict[str, FloatArray], row: int) -> pd.DataFrame:
    """One row a layer: the norms at one position."""
    columns = {name: values[:, row].astype(np.float64) for name, values in norms.items()}
    return pd.DataFrame({"layer": range(len(next(iter(norms.values())))), **columns})


def norms_table(norms: FloatArray, start: int) -> pd.DataFrame:
    """One row a layer, one column a position."""
    frame = pd.DataFrame(norms.astype(np.float64), columns=[str(start + i) for i in range(norms.shape[1])])
    frame.insert(0, "layer", range(len(norms)))
    return frame


def lens_table(lens: LogitLens, text: TokenText) -> pd.DataFrame:
    """One row for the embedding and one for each layer."""
    rows = []
    for i, label in enumerate(lens.labels):
        row = {
            "after": label, "best token": text(int(lens.top_ids[i, 0])), "its probability": float(lens.top_probs[i, 0]),
            "then": "  ".join(text(int(token)) for token in lens.top_ids[i, 1:]),
            "rank of the final token": int(lens.final_ranks[i]),
            "its probability here": float(lens.final_probs[i]),
        }
        if lens.next_ranks is not None and lens.next_probs is not None:
            row["rank of the run's next token"] = int(lens.next_ranks[i])
            row["probability of that"] = float(lens.next_probs[i])
        row["entropy (nats)"], row["KL to the last (nats)"] = float(lens.entropy[i]), float(lens.divergence[i])
        rows.append(row)
    return pd.DataFrame(rows)


def identities_table(found: Sequence[Identity]) -> pd.DataFrame:
    return pd.DataFrame([
        {
            "": "✓" if i.holds else "✗", "what must hold": i.statement, "largest difference": i.largest,
            "in layer": i.layer, "allowed": i.allowed, "measured": "relative" if i.relative else "absolute",
            "name": i.name,
        }
        for i in found
    ])  # fmt: skip


def identities_by_layer(found: Sequence[Identity], layers: int) -> pd.DataFrame:
    """One row a layer; the first layer has no layer before it."""
    columns = {i.name: [None] * (layers - len(i.by_layer)) + list(i.by_layer) for i in found if i.by_layer}
    return pd.DataFrame({"layer": range(layers), **columns})


def two_ways_matrix(ways: TwoWays, layers: int) -> tuple[list[str], FloatArray]:
    """(names, [names, L] largest differences) of what every layer writes; the later writing of a name counts."""
    found: dict[str, dict[int, float]] = {}
    for d in ways.comparison.differences:
        if d.layer is not None:
            found.setdefault(d.name, {})[d.layer] = d.largest
    names = list(found)
    return names, np.array([[found[n].get(layer, np.nan) for layer in range(layers)] for n in names], np.float32)


def two_ways_table(ways: TwoWays) -> pd.DataFrame:
    """One row a tensor of a stage, in the order of the program."""
    return pd.DataFrame([
        {
            "stage": d.stage, "layer": d.layer, "tensor": d.name, "largest difference": d.largest,
            "largest value": scale, "relative": d.largest / scale if scale else 0.0,
        }
        for d, scale in zip(ways.comparison.differences, ways.scales, strict=True)
    ])  # fmt: skip


def values_table(prefill: StageTensor, decode: StageTensor, count: int) -> pd.DataFrame:
    """The values of one tensor that differ most, both ways."""
    a, b = prefill.values.ravel().astype(np.float64), decode.values.ravel().astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.nan_to_num(np.abs(a - b))
    at = np.argsort(-off, kind="stable")[:count]
    return pd.DataFrame({"index": at, "prefill": a[at], "decode": b[at], "difference": a[at] - b[at]})
