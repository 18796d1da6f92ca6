"""Make the recorded runs that come with the project: `python -m tools.record_example [NAME ...]`, all without a name.

The real model, float32, CPU. Times are those of the machine that records: let nothing else run on it.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import miniinfer
from miniinfer import Engine, SamplingParams, load_model
from miniinfer.config import EngineConfig
from miniinfer.models.loader import LoadedModel
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.files.format import save_trace
from miniinfer.trace.files.recorded_run import Origin
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import ForceToken
from miniinfer.ui.saving.saved_runs import EXAMPLE_ID
from miniinfer.ui.sessions.memory import EXAMPLES_FOLDER
from miniinfer.ui.sessions.run_facts import branch_name, run_info
from miniinfer.ui.tokens import describe_token, encode_prompt


@dataclass(frozen=True)
class Recipe:
    """prompt, raw, with its settings. force: in this step this text, one token, is taken instead of what is drawn.
    title: the run's name, if not its prompt. head: (layer, head) that is shown first, if not the run's own choice."""

    prompt: str
    params: SamplingParams
    force: tuple[int, str] | None = None
    title: str | None = None
    head: tuple[int, int] | None = None


RECIPES = {
    "france": Recipe("The capital of France is", SamplingParams(max_new_tokens=32)),
    "copy": Recipe(
        "tiger lamp spoon river, tiger lamp spoon", SamplingParams(temperature=0, max_new_tokens=18), head=(17, 5)
    ),
    "detour": Recipe(
        "Once upon a time there was a", SamplingParams(max_new_tokens=36), (1, " dragon"),
        "Once upon a time, forced to a dragon",
    ),
}


def main() -> None:
    model = load_model(device="cpu", dtype="float32")
    for name in sys.argv[1:] or RECIPES:
        run = recorded(model, RECIPES[name])
        title = RECIPES[name].title or run.info.name
        run_id, head = EXAMPLE_ID if name == "france" else name, RECIPES[name].head or run.info.default_head
        run.info = dataclasses.replace(run.info, run_id=run_id, name=title, default_head=head)
        path = EXAMPLES_FOLDER / f"{name}.npz"
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        save_trace(run, path, Origin(f"MiniInfer {miniinfer.__version__}", at))
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(run.steps)} steps")
        print("".join(t.text for t in run.tokens))


def recorded(model: LoadedModel, recipe: Recipe) -> LiveRun:
    """The run, finished; of a forced token, the branch."""
    engine = Engine(model, EngineConfig(max_num_batched_tokens=2048))
    warm = engine.add_request([0, 0, 0, 0], SamplingParams(max_new_tokens=2))  # pays for thread pools and kernels
    while not warm.finished:
        engine.step()
    engine.release(warm)
    ids = encode_prompt(model, recipe.prompt, chat=False)
    seq = engine.add_request(ids, recipe.params)
    info = run_info(engine, model, "r1", recipe.prompt, len(ids), recipe.params, chat=False, one_pass=True)
    run = LiveRun(engine, seq, info, lambda i: describe_token(model, i), TraceBudget())
    while run.step():
        pass
    if recipe.force is not None:
        step, text = recipe.force
        (token_id,) = model.tokenizer.encode(text, parse_special=False)
        edit = ForceToken(step, token_id)
        run = run.fork(edit, "r2", branch_name(run, edit))
        while run.step():
            pass
    return run


if __name__ == "__main__":
    main()
