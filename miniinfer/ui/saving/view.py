"""A saved run while its model is being loaded: its own tokens, draws and times, from the file and the vocabulary alone.

What the model computes (attention, keys, values, distributions) is not there yet, and nothing is made up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miniinfer.config import ModelConfig
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.models.text import load_text
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.store.saved_run import SavedRun
from miniinfer.trace.records import ByteArray, FloatArray, NextToken, PooledMaps, StepMeta, TokenInfo
from miniinfer.trace.run import ChangeParams, Edit, ForceToken, RunInfo
from miniinfer.ui.saving.model_of_run import file_of
from miniinfer.ui.tokens import describe

ITEM_BYTES = {"bfloat16": 2}  # of a number in the KV cache; 4 in the other precisions
NOT_YET = "This comes back with the model, which is being loaded."


@dataclass(frozen=True)
class Wanted:
    """The run that comes back as soon as its model is there, and what is said before that. step: of its address; one
    behind the last saved step was seen, and the process was ended before it could be saved."""

    run_id: str
    note: str = ""
    step: int = 0


@dataclass(frozen=True)
class SavedView:
    """A Run whose figures of the model are missing: asking for one raises BadInputError, one sentence."""

    info: RunInfo
    finish_reason: str | None
    steps: list[StepMeta]
    tokens: list[TokenInfo]

    def next_token(self, step: int) -> NextToken | None:
        raise BadInputError(NOT_YET)

    def next_at(self, position: int) -> NextToken:
        raise BadInputError(NOT_YET)

    def rows_at(self, position: int) -> ByteArray | None:
        raise BadInputError(NOT_YET)

    def head_rows(self, layer: int, head: int, start: int, stop: int) -> ByteArray:
        raise BadInputError(NOT_YET)

    def head_map(self, layer: int, head: int, cell: int) -> ByteArray:
        raise BadInputError(NOT_YET)

    def exact_row(self, layer: int, head: int, position: int) -> FloatArray | None:
        raise BadInputError(NOT_YET)

    def pooled_maps(self, step: int) -> PooledMaps | None:
        raise BadInputError(NOT_YET)

    def kv_norms(self, start: int) -> FloatArray:
        """None yet: [0, L, 2]."""
        return np.empty((0, self.info.model.num_layers, 2), np.float32)

    def token_probs(self, start: int) -> FloatArray:
        raise BadInputError(NOT_YET)


def saved_entry(run: SavedRun) -> dict[str, Any]:
    """The line of the run menu for a run that is saved and not in memory."""
    return {
        "id": run.run_id, "name": run.name, "kind": "saved", "parent": run.parent, "fork_step": run.fork_step,
        "forced_token": run.forced_token, "last": len(run.steps), "finished": run.finish_reason,
    }  # fmt: skip


def saved_view(saved: SavedRun) -> SavedView | None:
    """None if the model's file is not there (it has to be fetched first) or its vocabulary is not that of the run."""
    path = file_of(saved.model)
    if path is None:
        return None
    try:
        config, tokenizer = load_text(path)
        return _view(saved, config, tokenizer)
    except MiniInferError:
        return None


def _view(saved: SavedRun, config: ModelConfig, tokenizer: Tokenizer) -> SavedView:
    itemsize = ITEM_BYTES.get(saved.model.dtype, 4)
    edit: Edit | None = None
    if saved.fork_step is not None:
        step, forced = saved.fork_step, saved.forced_token
        edit = ChangeParams(step, saved.params[-1]) if forced is None else ForceToken(step, forced)
    info = RunInfo(
        run_id=saved.run_id, name=saved.name, kind="saved", model_name=saved.model.name, model=config,
        device=saved.model.device, dtype=saved.model.dtype, itemsize=itemsize, weight_bytes=0,
        block_size=saved.block_size, context_length=config.context_length, chat=saved.chat, prompt=saved.prompt,
        num_prompt_tokens=len(saved.prompt_ids), params=saved.params[-1], one_pass=saved.one_pass, default_head=None,
        parent=saved.parent, edit=edit, resumed=len(saved.steps),
    )
    tokens = [describe(tokenizer, token_id) for token_id in (*saved.prompt_ids, *saved.output_ids)]
    return SavedView(info, saved.finish_reason, _steps(saved, config.kv_bytes_per_token(itemsize)), tokens)


def _steps(saved: SavedRun, position_bytes: int) -> list[StepMeta]:
    """Bytes read and reserved belong to an engine, and there is none: 0 here, and left out of what is shown."""
    found, context = [], 0
    for number, step in enumerate(saved.steps, 1):
        phase = "prefill" if context < len(saved.prompt_ids) else "decode"
        context += step.num_scheduled
        used = context * position_bytes
        held = -(-context // saved.block_size) * saved.block_size * position_bytes
        found.append(StepMeta(
            step=number, phase="prefill" if phase == "prefill" else "decode", num_scheduled=step.num_scheduled,
            context_len=context, step_ms=step.step_ms, stage_ms=step.stage_ms, token_id=step.token_id,
            forced=step.forced, logprob=step.logprob, coin=step.coin, kv_used_bytes=used, kv_allocated_bytes=held,
            kv_reserved_bytes=0, weight_bytes_read=0, kv_bytes_read=used, recording_ms=step.recording_ms,
        ))
    return found
