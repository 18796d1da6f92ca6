"""The side panel: prompt, sampler, seed and model. It says when a change takes effect; bad input loses nothing."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from miniinfer.config import BACKENDS, SamplingParams
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.models.registry import DEFAULT_MODEL, MODELS
from miniinfer.native.choose import backend_sentence
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ChangeParams
from miniinfer.ui.examples import EXAMPLES
from miniinfer.ui.sessions.engine_config import backend_for
from miniinfer.ui.sessions.model_host import ModelKey
from miniinfer.ui.sessions.session import Session

_DEFAULTS: dict[str, Any] = {
    "prompt": EXAMPLES[0].prompt, "kind": EXAMPLES[0].kind, "temperature": 0.8, "top_k": 0, "top_p": 0.95, "min_p": 0.0,
    "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": "0", "max_new_tokens": 32,
    "prefill": "one pass", "example": None,
}
FOLDS = "panel_folds"  # those that were opened in this tab: key to whether it is open now


def draw_side_panel(session: Session) -> None:
    """Draw it, and do what its buttons ask for."""
    for name, value in _DEFAULTS.items():
        st.session_state.setdefault(name, value)
    with st.sidebar:
        st.selectbox(
            "Example prompts", range(len(EXAMPLES)), key="example", format_func=lambda i: EXAMPLES[i].title, index=None,
            placeholder="Choose an example", on_change=_take_example,
        )
        with st.form("new_run", border=False):
            st.text_area("Prompt", key="prompt", height=110, help="Your text, exactly as it is given to the tokenizer.")
            _trailing_space_hint()
            st.segmented_control(
                "Prompt is", ["raw", "chat"], key="kind", required=True, width="stretch",
                help="raw: the model continues your text. chat: your text becomes one message of the chat template.",
            )
            _sampler(session.host.hosting.max_step_tokens)
            ready = session.model is not None
            st.caption("New run starts from the prompt. Branch re-draws at the step you are on. Every run is kept.")
            left, right = st.columns(2, gap="small")
            start = left.form_submit_button(
                "New run", type="primary", disabled=not ready, width="stretch",
                help=None if ready else "Possible once a model is loaded; how far it is stands under Model below.",
            )
            live = session.timeline.current is not None and session.timeline.current.info.kind == "live"
            branch = right.form_submit_button(
                "Branch here", disabled=not live, width="stretch",
                help="Draws this step's token again with these settings, with the same coin, and goes on from there.",
            )
        if start or branch:
            _submit(session, branch=branch)
        message = st.session_state.get("panel_error")
        if message:
            with st.container(key="panel_error"):
                st.text(message)
        st.session_state.setdefault("model_device", session.host.default_key.device)
        st.session_state.setdefault("model_dtype", session.host.default_key.dtype)
        _model(session)


def _sampler(step_tokens: int | None) -> None:
    st.slider("Temperature", 0.0, 2.0, step=0.05, key="temperature", help="0 = greedy: always the most probable token.")
    left, right = st.columns(2)
    left.number_input("Top-p", 0.0, 1.0, step=0.05, key="top_p", help="Keep the smallest set that reaches this mass.")
    right.number_input("Top-k", 0, None, step=1, key="top_k", help="Keep the k most probable tokens. 0 = off.")
    # A number field drops what is above 2**53 without a word.
    left.text_input("Seed", key="seed", max_chars=24, help="Same seed, same coins, whatever the settings.")
    right.number_input("New tokens", 0, 4096, step=1, key="max_new_tokens", help="At most this many output tokens.")
    more = _fold("More: min-p, penalties, prefill", "panel_more")
    if more is None:
        return
    with more:
        st.number_input("Min-p", 0.0, 0.999, step=0.01, key="min_p", help="Cut what is below this part of the best.")
        st.number_input(
            "Repetition penalty", None, None, step=0.05, key="repetition_penalty",
            help="Prompt and output, once per id. 1 = off.",
        )
        for name in ("presence", "frequency"):
            st.number_input(
                f"{name.capitalize()} penalty", None, None, step=0.1, key=f"{name}_penalty",
                help="Counts the output only. 0 = off.",
            )
        st.segmented_control(
            "Prefill", ["one pass", "token by token"], key="prefill", required=True, width="stretch",
            help="one pass: the whole prompt in one step. token by token: chunks of one, as decode would do it."
            + (f" On this server a step has at most {step_tokens} tokens, for others wait." if step_tokens else ""),
        )


def _fold(title: str, key: str) -> DeltaGenerator | None:
    """A fold whose fields are drawn when it is opened for the first time: together they take the browser a third of a
    second of the first page. From then on they stay, for a field that is not drawn forgets what was typed in it."""
    opened: dict[str, bool] = st.session_state.setdefault(FOLDS, {})
    if key in opened:  # Streamlit forgets it as the page is changed
        st.session_state.setdefault(key, opened[key])
    fold = st.expander(title, key=key, on_change="rerun")
    if fold.open or key in opened:
        opened[key] = bool(fold.open)
    return fold if key in opened else None


def _trailing_space_hint() -> None:
    prompt = st.session_state["prompt"]
    if prompt and prompt[-1] == " ":
        st.caption("The prompt ends in a space, which becomes a token of its own; words usually carry theirs in front.")


def _take_example() -> None:
    index = st.session_state.get("example")
    if index is not None:
        st.session_state["prompt"] = EXAMPLES[index].prompt
        st.session_state["kind"] = EXAMPLES[index].kind


def _submit(session: Session, *, branch: bool) -> None:
    state = st.session_state
    try:
        params = SamplingParams(
            temperature=state["temperature"], top_k=state["top_k"], top_p=state["top_p"], min_p=state["min_p"],
            repetition_penalty=state["repetition_penalty"], presence_penalty=state["presence_penalty"],
            frequency_penalty=state["frequency_penalty"], seed=_seed(state["seed"]),
            max_new_tokens=state["max_new_tokens"],
        )
        if branch:
            if session.timeline.cursor == 0:  # the button cannot know: a step does not draw this panel anew
                raise BadInputError("Step once first: nothing has been drawn yet that could be drawn again.")
            session.branch(ChangeParams(session.timeline.cursor, params))
        else:
            chat, one_pass = state["kind"] == "chat", state["prefill"] == "one pass"
            with session.lock:  # the example that is going live is at its beginning for a moment
                if not _is_there(session, state["prompt"], params, chat, one_pass):
                    session.new_run(state["prompt"], params, chat=chat, one_pass=one_pass)
        model = session.model
        state["panel_error"] = params.note_for(model.config.vocab_size) if model is not None else None
    except MiniInferError as error:
        state["panel_error"] = str(error)
    st.rerun()


def _is_there(session: Session, prompt: str, params: SamplingParams, chat: bool, one_pass: bool) -> bool:
    """Whether the run in view is that very one at its beginning: the second click of a double click wants no other."""
    run = session.timeline.current
    if not isinstance(run, LiveRun) or run.steps or run.model is not session.model:
        return False
    made = (i := run.info).prompt, i.params, i.chat, i.one_pass, i.parent, i.block_size, i.backend
    backend = backend_for(run.model, session.backend).name
    return made == (prompt, params, chat, one_pass, None, session.block_size, backend)


def _seed(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        raise BadInputError(f"The seed must be a whole number from 0 to 2**64 - 1, not {text!r}.")
    return int(text)


def _model(session: Session) -> None:
    model = _fold("Model", "panel_model")
    if model is None:
        return
    with model:
        st.caption("Applies to new runs; the runs you have keep the model they were made with.")
        with st.form("model", border=False):
            if session.host.hosting.local_paths:
                source = st.text_input(
                    "Model", key="model_source", placeholder="SmolLM2-135M-Instruct",
                    help="Leave empty for the default, or give the path of a GGUF file or of a Hugging Face folder.",
                )
            else:
                names = list(MODELS)
                source = st.selectbox("Model", names, index=names.index(DEFAULT_MODEL), key="model_name")
            left, right = st.columns(2)
            device = left.selectbox("Device", ["auto", "cpu", "cuda", "mps"], key="model_device")
            dtype = right.selectbox(
                "Precision", ["float32", "bfloat16", "packed"], key="model_dtype",
                help="packed: the 4-bit blocks of a GGUF file as they are, on the CPU. Smaller and faster; the numbers "
                "differ from float32, and the pages Model and Cost say by how much.",
            )
            backend = st.selectbox(
                "Backend", list(BACKENDS), key="model_backend",
                help="What computes the stages. " + " ".join(f"{name}: {what}" for name, what in BACKENDS.items()),
            )
            if st.form_submit_button("Load", width="stretch"):
                session.backend = backend
                chosen = source.strip()
                session.choose_model(ModelKey(None if chosen in ("", DEFAULT_MODEL) else chosen, device, dtype))
                st.rerun()
        with st.container(key="model_status"):
            st.text(session.status.text)
            if session.status.state == "ready":
                st.text(backend_sentence(session.backend))
