"""A recording goes on: with the model that made it, its tokens are known, and everything large is computed again."""

from __future__ import annotations

import time

from miniinfer.errors import BadInputError
from miniinfer.store.saved_run import SavedRun, SavedStep
from miniinfer.trace.files.recorded_run import RecordedRun
from miniinfer.ui.saving.model_of_run import saved_model
from miniinfer.ui.sessions.session import Session


def make_live(session: Session, run: RecordedRun) -> None:
    """A live copy of the recording comes into view and is saved. Raises MiniInferError, with nothing changed, if the
    loaded model is not the one of the recording."""
    with session.lock:
        model, info = session.model, run.info
        if model is None:
            raise BadInputError("The model is not loaded yet; how far it is stands at the top.")
        here = (model.config, model.dtype, model.name)
        if here != (info.model, info.dtype, info.model_name):
            raise BadInputError(
                f"This recording is of {info.model_name} in {info.dtype}, and the loaded model is {model.name} in "
                f"{model.dtype}: load the other one in the side panel, under Model, and try again."
            )
        settings = [*(p for p in run.settings if p != info.params), info.params]  # the last one is in force
        known = run.settings or (info.params,)
        places = run.step_settings or (0,) * len(run.steps)
        steps = tuple(
            SavedStep(
                m.num_scheduled, m.step_ms, m.stage_ms, m.token_id, m.forced, m.logprob, m.coin,
                settings.index(known[place]), m.recording_ms,
            )
            for m, place in zip(run.steps, places, strict=True)
        )
        saved = SavedRun(
            session=session.keeper.token, run_id=info.run_id, name=info.name, prompt=info.prompt,
            prompt_ids=tuple(token.token_id for token in run.tokens[: info.num_prompt_tokens]), chat=info.chat,
            one_pass=info.one_pass, block_size=info.block_size, model=saved_model(session.key, model, info.backend),
            params=tuple(settings), steps=steps, finish_reason=run.finish_reason,
            cursor=session.timeline.cursor_of(info.run_id), created=time.time(),
        )
        session.open(session.keeper.copy_in([saved]))
        if session.error:
            raise BadInputError(session.error)
