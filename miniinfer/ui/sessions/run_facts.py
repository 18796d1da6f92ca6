"""What a new live run is made with, and how runs and branches are named."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from miniinfer.config import SamplingParams
from miniinfer.figures.quoting import quoted
from miniinfer.models.display import visible
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ChangeParams, Edit, ForceToken, Run, RunInfo

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.models.loader import LoadedModel

MOST_READ = 10_000  # characters of a prompt that its name is made of


def run_info(
    engine: Engine, model: LoadedModel, run_id: str, prompt: str, num_prompt_tokens: int, params: SamplingParams,
    *, chat: bool, one_pass: bool,
) -> RunInfo:
    """The facts of a new live run."""
    return RunInfo(
        run_id=run_id, name=name_of(prompt), kind="live", model_name=model.name, model=model.config,
        device=model.device, dtype=model.dtype, itemsize=engine.weights.dtype.itemsize,
        weight_bytes=model.weight_bytes, block_size=engine.config.block_size, context_length=engine.context_length,
        chat=chat, prompt=prompt, num_prompt_tokens=num_prompt_tokens, params=params, one_pass=one_pass,
        default_head=None, backend=engine.backend.name,
    )


def name_of(prompt: str) -> str:
    """What a new run is called: its first words; a prompt of blanks alone shows them, so that no run is nameless."""
    return short_name(prompt) or short_name(visible(prompt)) or "empty message"


def short_name(prompt: str) -> str:
    """The first words of a prompt, one line, at most 40 characters; without what would turn the text around it."""
    words = one_line(prompt[:MOST_READ])
    return words if len(words) <= 40 else words[:39] + "…"


def one_line(text: str) -> str:
    """Without breaks and what is not seen: controls, marks of direction."""
    return " ".join("".join(c for c in text if not _is_hidden(c)).split())


def _is_hidden(character: str) -> bool:
    """Controls, halves of pairs, marks of direction; not the joiners that emoji and scripts are written with."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") and character not in " \t\n\r\u200c\u200d"


def branch_name(run: LiveRun, edit: Edit) -> str:
    """Where a branch left its trunk, and with what."""
    what = "new settings" if isinstance(edit, ChangeParams) else f"“{visible(run.describe(edit.token_id).text)}”"
    return f"step {edit.step}: {what}"


def leaves(looked: Run | None, trunk: LiveRun, edit: Edit) -> str | None:
    """What to say of a branch that leaves another run than the one looked at; None if it leaves that one."""
    if looked is None or looked is trunk or looked.info.edit is None:
        return None
    goes_on = isinstance(edit, ForceToken) and looked.info.params != trunk.params_of(edit.step)
    return (
        f"{quoted(looked.info.name)} shares step {edit.step} with {quoted(trunk.info.name)}: the branch leaves that run"
        + (", and goes on with its settings." if goes_on else ".")
    )
