"""Between a live run and its saved form: what is kept of it, and what a run that comes back is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from miniinfer.store.saved_run import SavedModel, SavedRun, SavedStep
from miniinfer.trace.known_step import KnownStep
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ChangeParams, Edit, ForceToken, RunInfo
from miniinfer.ui.sessions.run_facts import run_info

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.models.loader import LoadedModel


def saved_form(
    run: LiveRun, session: str, model: SavedModel, created: float, cursor: int, name: str | None = None,
    before: SavedRun | None = None,
) -> SavedRun | None:
    """The run as it stands, whole steps only; None if it was released meanwhile. Called from any thread, without a
    lock: lists only grow, and a run that is emptied says so first. A run that sleeps is not woken.

    before: what this gave for the run earlier, whose steps are taken over, with their JSON.
    """
    info, steps = run.info, run.known_steps()
    finish = run.finish_reason
    if run.released:
        return None
    prompt = info.num_prompt_tokens
    chosen = sum(step.token_id is not None for step in steps)
    if run.seq.num_tokens != prompt + chosen:
        finish = None  # a step was committed a moment ago, and is not recorded yet
    used = {id(step.params): step.params for step in steps}  # few objects, and hashing one takes longer than a step
    params = [*(p for p in dict.fromkeys(used.values()) if p != info.params), info.params]  # the last one is in force
    place = {number: params.index(p) for number, p in used.items()}
    known = before.steps if before is not None else ()
    edit = info.edit
    return SavedRun(
        session=session, run_id=info.run_id, name=name or info.name, prompt=info.prompt,
        prompt_ids=tuple(run.seq.token_ids[:prompt]), chat=info.chat, one_pass=info.one_pass,
        block_size=info.block_size, model=model, params=tuple(params),
        steps=tuple(
            _saved_step(step, place[id(step.params)], known[i] if i < len(known) else None)
            for i, step in enumerate(steps)
        ),
        finish_reason=finish, cursor=min(cursor, len(steps)), created=created, parent=info.parent,
        fork_step=edit.step if edit else None,
        forced_token=edit.token_id if isinstance(edit, ForceToken) else None,
    )


def _saved_step(step: KnownStep, params: int, before: SavedStep | None) -> SavedStep:
    """before: the same step as it was saved earlier; steps never change, but the place of their settings may."""
    if before is not None and before.params == params:
        return before
    stages = {name: round(ms, 4) for name, ms in step.stage_ms.items()}
    return SavedStep(
        step.num_scheduled, step.step_ms, stages, step.token_id, step.forced, step.logprob, step.coin, params,
        None if step.recording_ms is None else round(step.recording_ms, 4),
    )


def known_steps(saved: SavedRun) -> list[KnownStep]:
    return [
        KnownStep(
            s.num_scheduled, s.step_ms, s.stage_ms, s.token_id, s.forced, s.logprob, s.coin, saved.params[s.params],
            s.recording_ms,
        )
        for s in saved.steps
    ]


def info_of(saved: SavedRun, engine: Engine, model: LoadedModel) -> RunInfo:
    """The facts of a saved run in an engine that it can go on in."""
    edit: Edit | None = None
    if saved.fork_step is not None:
        step, token_id = saved.fork_step, saved.forced_token
        edit = ChangeParams(step, saved.params[-1]) if token_id is None else ForceToken(step, token_id)
    info = run_info(
        engine, model, saved.run_id, saved.prompt, len(saved.prompt_ids), saved.params[-1], chat=saved.chat,
        one_pass=saved.one_pass,
    )
    return replace(info, name=saved.name, parent=saved.parent, edit=edit)


def path_to(runs: dict[str, SavedRun], run_id: str) -> list[SavedRun]:
    """From the root to this run, as far as its trunks are there."""
    path = [runs[run_id]]
    while (parent := path[0].parent) in runs and runs[str(parent)] not in path:
        path.insert(0, runs[str(parent)])
    return path


def copies_of(
    path: Sequence[SavedRun], session: str, new_id: Callable[[], str], step: int | None = None
) -> list[SavedRun]:
    """A run and the trunks it left, root first, as runs of another session. step: where the last one is looked at."""
    ids: dict[str, str] = {}
    copies = []
    for run in path:
        ids[run.run_id] = new = new_id()
        parent = ids.get(run.parent or "")
        cursor = run.cursor if step is None or run is not path[-1] else min(step, len(run.steps))
        copies.append(replace(
            run, session=session, run_id=new, parent=parent, fork_step=run.fork_step if parent else None,
            forced_token=run.forced_token if parent else None, cursor=cursor, created=time.time(),
        ))  # fmt: skip
    return copies


def highest_number(run_ids: Iterable[str]) -> int:
    """Of ids like r7; what another program wrote counts for nothing."""
    return max((int(i[1:]) for i in run_ids if i[:1] == "r" and i[1:].isdecimal() and len(i) < 12), default=0)
