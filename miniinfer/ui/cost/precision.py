"""The same run in float32, bfloat16 and packed: bytes, time, and where the text first differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from miniinfer.config import SamplingParams
from miniinfer.errors import MiniInferError
from miniinfer.figures.cost.comparisons import margin_figure
from miniinfer.figures.cost.plots import precision_figure
from miniinfer.figures.cost.tables import precision_table, precision_tokens_table
from miniinfer.figures.cost.words import megabytes
from miniinfer.figures.kv.words import exact, listed
from miniinfer.measure.progress import Measurement
from miniinfer.measure.records import PrecisionComparison
from miniinfer.provenance import Provenance
from miniinfer.ui.cost.look import CostLook, measure_button
from miniinfer.ui.cost.task import Say
from miniinfer.ui.page import card
from miniinfer.ui.room import roomy
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

if TYPE_CHECKING:
    from miniinfer.engine.weights import ModelLike

VIEW = "precision"
OWN, GREEDY = "this run's settings", "greedy"
DTYPES = ("float32", "bfloat16", "packed")
PRECISIONS = {
    "float32": "4 bytes a number, 24 bits of it precise. What the others are held against.",
    "bfloat16": "2 bytes, 8 bits precise, in weights, activations and cache; sampling stays in float32.",
    "packed": "the file's own 4-bit blocks, multiplied as they are (their scales rounded to bfloat16); what has "
    "no such blocks, the unembed matrix above all, in float16. Everything between two products, and the cache, in "
    "float32.",
}
HEIGHT = 280
WHOLE, TWO = st.column_config.NumberColumn(format="localized"), st.column_config.NumberColumn(format="%.2f")
THREE = st.column_config.NumberColumn(format="%.3f")
SIX = st.column_config.NumberColumn(format="%.6f")
COLUMNS = dict.fromkeys(
    ("weight bytes", "embedding bytes", "KV bytes a token", "allocator bytes"), WHOLE
) | dict.fromkeys(("prefill ms", "decode ms", "p90 ms", "ratio"), TWO) | {
    "logit difference": THREE, "KL, nats": SIX,
}  # fmt: skip


def draw_precision(look: CostLook) -> None:
    found: PrecisionComparison | None = look.result(VIEW)
    with st.container(horizontal=True, vertical_alignment="center"):
        way = st.segmented_control(
            "Settings", [OWN, GREEDY], default=OWN, key="cost_precision_settings", required=True,
            label_visibility="collapsed",
        )
        _button(look, way == GREEDY)
    if found is None:
        _explain(look)
        return
    with st.container(key="cost_verdict"):
        st.text(_verdict(look, found))  # no markup: it holds tokens
    st.caption(_why(found))
    left, right = st.columns(2, gap="medium")
    with left:
        st.plotly_chart(
            precision_figure(found, look.colours, roomy(HEIGHT)), key="cost_precision_bars", config=PLOT,
            alt="Bytes and times of each precision, relative to the first",
        )
    with right:
        st.plotly_chart(
            margin_figure(found, look.colours, roomy(HEIGHT)), key="cost_precision_margins", config=PLOT,
            alt="How far the best token was ahead at each output token, in each precision",
        )
    decode = found.runs[0].decode
    asked = found.runs[0].allocator_bytes is not None
    allocator = "" if asked else f"; {look.where}: no device allocator to ask"
    program = "; all by torch, the reference" if look.run.info.backend in ("native", "graph") else ""
    sources = {
        Provenance.COMPUTED: "bytes of the tensors; logit difference (the largest) and mean KL to the first, over the "
        f"{found.num_shared} places with the same text before them",
        Provenance.MEASURED: f"prefill once, after a warm-up; decode the median of {decode.rounds} steps, "
        f"{decode.warm_up} before thrown away; ratio by round{program}{allocator}",
    }
    draw_table_twin(precision_table(found), "cost_precision", sources, "precision.csv", columns=COLUMNS)
    with st.expander("What does each precision keep?"):
        _say_what_they_are(look)
    with st.expander("Token by token"):
        texts = {t.token_id: look.text(t.token_id) for run in found.runs for t in run.tokens}
        frame = precision_tokens_table(found, texts)
        fine = {name: THREE for name in frame.columns if name.startswith(("margin", "probability"))}
        each = {Provenance.COMPUTED: "margin: the lead of the best raw logit over the second; probability: raw"}
        draw_table_twin(frame, "cost_precision_tokens", each, "precision-tokens.csv", columns=fine)


def _explain(look: CostLook) -> None:
    """What the precisions are, before they are compared."""
    info = look.run.info
    with card("Fewer bytes a weight, fewer bytes to move: how much faster, and does the text become another one?"):
        _say_what_they_are(look)
        one = exact(info.model.kv_bytes_per_token(info.itemsize))
        st.text(
            f"This run is in {info.dtype}: {megabytes(info.weight_bytes)} of weights with the embedding, "
            f"{one} of keys and values a position (computed). The same prompt, settings and coins run in each; bytes, "
            "times, how far logits and distributions lie from the first, and the first token that differs, with its "
            "margin, will stand here."
        )


def _say_what_they_are(look: CostLook) -> None:
    for dtype in dtypes_for(look):
        st.text(f"{dtype}: {PRECISIONS[dtype]}")
    if "packed" not in dtypes_for(look):
        st.text("packed needs a GGUF file and the CPU, so it is not among them here.")


def _button(look: CostLook, greedy: bool) -> None:
    params = replace(look.run.info.params, temperature=0.0) if greedy else look.run.info.params
    measure_button(
        look, VIEW, f"Run in {listed(dtypes_for(look))}", lambda say: _measure(look, params, say),
        "Loads the model in the other precisions beside this one, runs this prompt in all, with the same settings and "
        "coins, in turn, and drops them again. The run is not touched. Some 15 seconds."
        + ("" if "packed" in dtypes_for(look) else " Packed needs a GGUF file and the CPU."),
    )


def dtypes_for(look: CostLook) -> tuple[str, ...]:
    """Those in which this run's model can be loaded where it is: packed weights are a GGUF file's, on the CPU."""
    packable = look.run.info.device == "cpu" and not look.model.source.is_dir()
    return tuple(dtype for dtype in DTYPES if packable or dtype != "packed")


def _measure(look: CostLook, params: SamplingParams, say: Say) -> Measurement[PrecisionComparison]:
    """Loads in the task's own thread, so that other tabs go on; what was loaded is forgotten with the measurement."""
    from miniinfer.measure.precision import measure_precision
    from miniinfer.models.loader import load_model

    model, info = look.model, look.run.info
    others = [dtype for dtype in dtypes_for(look) if dtype != info.dtype]
    models: dict[str, ModelLike] = {info.dtype: model}
    for dtype in others:
        say(f"loading the model in {dtype}")
        loaded = load_model(model.source, device=info.device, dtype=dtype)
        if loaded.config != model.config:
            raise MiniInferError("The model's file has changed since this run began: start a new run.")
        models[dtype] = loaded
    ordered = {dtype: models[dtype] for dtype in (*DTYPES, info.dtype) if dtype in models}
    prompt = look.run.seq.token_ids[: info.num_prompt_tokens]
    return measure_precision(ordered, prompt, params, one_pass=look.most_tokens)


def _verdict(look: CostLook, found: PrecisionComparison) -> str:
    first = found.first_difference
    count = len(found.runs[0].tokens)
    if first is None:
        return f"All {count} output tokens are the same in {listed(run.dtype for run in found.runs)}"
    said = []
    for run in found.runs:
        token = run.tokens[first]
        said.append(
            f"{run.dtype} takes “{look.text(token.token_id)}”, {token.probs[token.token_id]:.1%}, margin "
            f"{token.margin:.3f}"
        )
    return f"The text first differs at output token {first + 1}: {'; '.join(said)}"


def _why(found: PrecisionComparison) -> str:
    """What the numbers of the verdict are, and what decides."""
    told = "Percentages are raw probabilities; the margin is the lead of the best raw logit over the second."
    if found.temperature == 0:
        return f"{told} Greedy: where a precision rounds by more than the margin, it may take the other token."
    return (
        f"{told} At temperature {found.temperature:g} the same coin falls in each; where two tokens meet near it, a "
        "small shift of the probabilities is enough. Greedy shows the margin's own part."
    )
