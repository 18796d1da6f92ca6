"""What the transport in the frame of every page needs: plain JSON, a pure function of the runs and their cursor."""

from __future__ import annotations

from typing import Any

from miniinfer.figures.workspace import finite, run_entry, token_entry
from miniinfer.trace.run import Run, RunInfo
from miniinfer.trace.timeline import Timeline


def summary(info: RunInfo) -> str:
    """What runs where. torch, the reference, goes without saying."""
    backend = "" if info.backend == "torch" else f" · {info.backend}"
    return f"{info.model_name} · {info.device.upper()} · {info.dtype}{backend}"


def transport_data(timeline: Timeline, model: dict[str, Any], has_driver: bool) -> dict[str, Any]:
    """Runs, steps as [phase, scheduled tokens], the cursor, what its step chose, and one line on what runs where."""
    run = timeline.current
    assert run is not None
    steps = run.steps
    cursor = timeline.cursor
    return {
        "run": run.info.run_id, "name": run.info.name, "kind": run.info.kind, "last": len(steps), "cursor": cursor,
        "prompt_len": run.info.num_prompt_tokens, "finished": run.finish_reason,
        "max_new": run.info.params.max_new_tokens, "meta": [[m.phase, m.num_scheduled] for m in steps],
        "model": model, "runs": [run_entry(r) for r in timeline],
        "summary": summary(run.info),
        "ms": round(steps[cursor - 1].step_ms, 1) if cursor else None, "has_driver": has_driver,
        "newest": _newest(run, cursor),
    }


def _newest(run: Run, step: int) -> dict[str, Any] | None:
    """What the step chose, for the live region; logprob is natural, under the distribution that the draw used."""
    if not step:
        return None
    meta = run.steps[step - 1]
    token = None if meta.token_id is None else token_entry(run.tokens[meta.context_len])
    return {"step": step, "token": token, "forced": meta.forced, "logprob": finite(meta.logprob)}
