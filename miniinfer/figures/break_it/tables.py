"""Tables of two runs side by side; each figure of break_it/plots.py has its twin here."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from miniinfer.trace.compare import StageDifference
from miniinfer.trace.lockstep import NextBars
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.text_loss import TextLoss


def stages_table(stages: Sequence[StageDifference]) -> pd.DataFrame:
    """Every tensor of the first step that differs, in the order of the program; infinite where shapes differ."""
    return pd.DataFrame(
        [{"stage": d.stage, "layer": d.layer, "tensor": d.name, "largest difference": d.largest} for d in stages],
        columns=["stage", "layer", "tensor", "largest difference"],
    ).astype({"layer": "Int64"})


def growth_table(growth: Sequence[float]) -> pd.DataFrame:
    """|a - b| / |a| of the newest row of the residual stream after each layer."""
    return pd.DataFrame({"layer": range(len(growth)), "relative difference": list(growth)})


def next_tokens_table(bars: Sequence[NextBars]) -> pd.DataFrame:
    """The best candidates of either side for every output token; probabilities after the logits processors."""
    columns = ["output", "token_id", "token", "healthy", "broken", "taken by"]
    rows = [
        (
            bar.index + 1, token.token_id, token.text, bar.a[place] if bar.a else None,
            bar.b[place] if bar.b else None, taken_by(bar, token.token_id),
        )
        for bar in bars
        for place, token in enumerate(bar.tokens)
    ]
    return pd.DataFrame(rows, columns=columns)


def taken_by(bar: NextBars, token_id: int) -> str:
    return " and ".join(name for name, i in zip(("healthy", "broken"), bar.taken, strict=True) if i == token_id)


def loss_table(
    text: Sequence[TokenInfo], one_pass: tuple[TextLoss, TextLoss], token_by_token: tuple[TextLoss, TextLoss]
) -> pd.DataFrame:
    """-ln of the probability of each token of the fixed text after those before it; the first one has none."""
    columns = {
        "one pass, healthy": one_pass[0].nats, "one pass, broken": one_pass[1].nats,
        "token by token, healthy": token_by_token[0].nats, "token by token, broken": token_by_token[1].nats,
    }
    tokens = text[1:]
    frame = pd.DataFrame({"position": range(1, len(tokens) + 1), "token": [t.text for t in tokens]})
    return frame.assign(**{name: list(values) for name, values in columns.items()})

