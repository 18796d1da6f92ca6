"""One sequence through an engine of its own, with a record of each step."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from miniinfer.cli.output_text import OutputText
from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.state import StepState
from miniinfer.models.loader import LoadedModel


class Generation:
    """Iterate over it once: each step gives its record (the line of `generate --json`) and the text to show now."""

    def __init__(self, model: LoadedModel, prompt_ids: Sequence[int], params: SamplingParams) -> None:
        self.model = model
        self.engine = Engine(model)
        self.sequence = self.engine.add_request(list(prompt_ids), params)
        self.records: list[dict[str, Any]] = []
        self._text = OutputText(model.token_bytes, params.stop)
        self._ends = model.stop_ids | set(params.stop_ids)

    @torch.inference_mode()
    def step(self) -> tuple[dict[str, Any], str] | None:
        """The next step's record and text; None if the sequence is finished."""
        begun = time.perf_counter()
        state = self.engine.step()
        if state is None:
            return None
        if self.model.device != "cpu":  # a prefill chunk that samples nothing has not waited for the device
            torch.accelerator.synchronize()
        record = self._record(state, 1000 * (time.perf_counter() - begun))
        self.records.append(record)
        token_id = record["token_id"]
        ended_by_it = self.sequence.finish_reason == "stop" and token_id in self._ends
        return record, "" if token_id is None or ended_by_it else self._text.push(token_id)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], str]]:
        while (step := self.step()) is not None:
            yield step

    def abort(self) -> None:
        """End it where it stands."""
        self.engine.abort(self.sequence)

    def end(self) -> str:
        """The text that was held back, once all steps are done."""
        return self._text.finish()

    def result(self) -> dict[str, Any]:
        """The last line of `generate --json`."""
        return {
            "finish_reason": self.sequence.finish_reason,
            "text": self._text.text,
            "prompt_ids": self.sequence.prompt_ids,
            "output_ids": self.sequence.output_ids,
        }

    def _record(self, state: StepState, ms: float) -> dict[str, Any]:
        scheduled = state.scheduled[0]
        sampled = bool(state.sample_rows) and state.token_ids[0] >= 0
        token_id = state.token_ids[0] if sampled else None
        context_len = self.sequence.num_computed_tokens
        itemsize = self.model.weights.dtype.itemsize
        return {
            "step": len(self.records) + 1,
            "phase": "prefill" if scheduled.start < self.sequence.num_prompt_tokens else "decode",
            "num_scheduled_tokens": scheduled.num_tokens,
            "context_len": context_len,
            "token_id": token_id,
            "token_str": None if token_id is None else self.model.tokenizer.display(token_id),
            "logprob": None if token_id is None else math.log(float(state.probs[0, token_id])),
            "coin": state.coins[0] if sampled else None,
            "kv_bytes": context_len * self.model.config.kv_bytes_per_token(itemsize),
            "ms": round(ms, 3),
        }
