"""Into a step: what is seen is what the run computed, bit for bit, and the run does not notice."""

from __future__ import annotations

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError, MiniInferError, OutOfBlocksError
from miniinfer.faults.replace import replace_stage
from miniinfer.trace.inside import inside as inside_module
from miniinfer.trace.inside.fields import KEYS_NAME, VALUES_NAME, as_tensor
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.replay import rows_of
from miniinfer.trace.run import ForceToken
from tests.engine.helpers import cached
from tests.trace.live import PROMPT, finished_run, live_run

CHUNKED = {"chunk": 3}


def stepped(steps: int, **kwargs: object) -> LiveRun:
    run = live_run(**kwargs)  # type: ignore[arg-type]
    for _ in range(steps):
        assert run.step()
    return run


def own_tensors(steps: int, **kwargs: object) -> list[dict[str, torch.Tensor]]:
    """What each stage of the run's step number `steps` wrote, seen by an observer of an undisturbed twin run."""
    run = stepped(steps - 1, **kwargs)
    found = []

    def watch(stage: object, state: StepState) -> None:
        written = {name: as_tensor(getattr(state, name, None)) for name in stage.writes}  # type: ignore[attr-defined]
        found.append({name: t.clone() for name, t in written.items() if t is not None})

    run.engine.step(watch, only=run.seq)
    return found


def seen(inside: StepInside, pc: int) -> dict[str, torch.Tensor]:
    inside.goto(pc)
    values = {name: as_tensor(value) for name, value in inside.written().items()}
    return {name: t for name, t in values.items() if t is not None}


PLACES = ("slot_mapping", "new_blocks", "block_tables", KEYS_NAME, VALUES_NAME)  # blocks of its own


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    names = (a.keys() | b.keys()) - set(PLACES)
    return all(torch.equal(a[n].nan_to_num(), b[n].nan_to_num()) for n in names)


@pytest.mark.parametrize(
    ("made", "step", "kwargs"),
    [
        (4, 1, {}), (4, 3, {}), (4, 5, {}), (0, 1, {}), (5, 1, CHUNKED), (5, 2, CHUNKED), (5, 3, CHUNKED),
        (1, 2, CHUNKED),
    ],
)
def test_every_stage_shows_the_tensors_of_the_run_itself(made: int, step: int, kwargs: dict[str, int]) -> None:
    run = stepped(made, **kwargs)
    expected = own_tensors(step, **kwargs)
    inside = StepInside(run, step)
    assert inside.rows.made == (step <= made)
    for pc in range(1, len(inside.program) + 1):
        assert same(seen(inside, pc), expected[pc - 1]), inside.program[pc - 1]
    inside.close()
    run.engine.check()


def test_back_and_forth_shows_the_same() -> None:
    run = stepped(4)
    expected = own_tensors(2)
    inside = StepInside(run, 2)
    total = len(inside.program)
    for pc in (20, 19, 7, 40, 40, 8, total, 9, 3, 1, 35, 34, total, total - 1, 14, 15, 14):
        assert same(seen(inside, pc), expected[pc - 1]), pc
        look = inside.look()
        assert look is not None
        assert (look.pc, look.name) == (pc, inside.program[pc - 1].name)
        run.engine.check()
    inside.goto(0)
    assert inside.look() is None
    inside.close()


def test_going_back_works_when_only_some_layers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_module, "KEPT_BYTES", 28 * 7 * 4 * 2)
    run = stepped(2)
    expected = own_tensors(1)
    inside = StepInside(run, 1)
    inside.goto(36)
    assert sorted(inside._saved) == [3, 25]
    for pc in (20, 36, 27, 14, 5):
        assert same(seen(inside, pc), expected[pc - 1]), pc
    inside.close()


def test_what_a_stage_reads_is_what_stood_there_before() -> None:
    run = stepped(1)
    inside = StepInside(run, 1)
    inside.goto(5)
    before = inside.written()["q"]
    inside.goto(6)  # rope reads q and writes q
    assert torch.equal(inside._reads["q"], before)
    assert not torch.equal(inside.written()["q"], before)
    inside.goto(8)
    keys = inside._reads[KEYS_NAME]  # [K, C, D]
    assert torch.equal(keys, inside.state.k.transpose(0, 1))
    inside.close()


def reads(inside: StepInside, pc: int) -> dict[str, torch.Tensor]:
    inside.goto(pc)
    values = {name: as_tensor(value) for name, value in inside._reads.items()}
    return {name: t.clone() for name, t in values.items() if t is not None}


@pytest.mark.parametrize("step", [1, 2])
def test_what_a_stage_reads_is_the_same_on_the_way_back(step: int) -> None:
    """Going back puts kept fields back; what stood in the others belongs to a later layer and must not be shown."""
    run = stepped(4)
    inside = StepInside(run, step)
    places = range(1, len(inside.program) + 1)
    forth = {pc: reads(inside, pc) for pc in places}
    for pc in reversed(places):
        assert same(reads(inside, pc), forth[pc]), inside.program[pc - 1]
    inside.close()


@pytest.mark.parametrize("step", [1, 3, 5])
def test_the_run_is_not_touched(step: int) -> None:
    run, twin = stepped(4), stepped(4)
    engine, seq = run.engine, run.seq
    before = (list(seq.token_ids), list(seq.block_table), seq.num_computed_tokens, cached(engine, seq))
    records, used = list(run.records), engine.pool.num_used
    inside = StepInside(run, step)
    for pc in (10, 30, len(inside.program), 20):
        inside.goto(pc)
    assert engine.pool.num_used > used
    inside.close()
    inside.close()
    engine.check()
    after = (list(seq.token_ids), list(seq.block_table), seq.num_computed_tokens)
    assert after == before[:3]
    assert torch.equal(cached(engine, seq), before[3])
    assert run.records == records
    assert engine.pool.num_used == used
    assert list(engine.sequences) == ["r1"]
    while run.step() | twin.step():
        engine.check()
    assert run.seq.token_ids == twin.seq.token_ids
    assert torch.equal(cached(engine, run.seq), cached(twin.engine, twin.seq))
    assert [m.logprob for m in run.steps] == [m.logprob for m in twin.steps]


@pytest.mark.parametrize("place", [1, 6, 7, 12, 30])
def test_a_run_that_steps_while_its_step_is_looked_into_is_not_touched_either(place: int) -> None:
    run, twin = stepped(3), stepped(3)
    expected = own_tensors(4)
    inside = StepInside(run, 4)
    inside.goto(place)
    assert run.step()
    assert run.step()
    twin.step()
    twin.step()
    assert torch.equal(cached(run.engine, run.seq), cached(twin.engine, twin.seq))
    assert same(seen(inside, place + 1), expected[place])
    assert same(seen(inside, 40), expected[39])
    assert same(seen(inside, 9), expected[8])  # and back, over a write into what the run shares
    inside.close()
    assert run.step()
    twin.step()
    run.engine.check()
    assert torch.equal(cached(run.engine, run.seq), cached(twin.engine, twin.seq))


def test_a_replay_of_a_forced_step_shows_what_the_draw_itself_gave() -> None:
    run = stepped(4)
    token_id = run.records[1].sequences[0].token_id
    branch = run.fork(ForceToken(2, 11), "r2", "branch")
    inside = StepInside(branch, 2)
    inside.goto(len(inside.program) - 1)
    assert inside.state.token_ids == (token_id,)
    inside.close()
    branch.step()
    inside = StepInside(branch, 3)
    inside.goto(3)
    assert inside.state.input_ids.tolist() == [11]
    inside.close()


def test_committing_the_next_step_gives_what_was_seen() -> None:
    run = stepped(2)
    inside = StepInside(run, 3)
    inside.goto(len(inside.program) - 1)
    tokens = inside.state.token_ids
    inside.goto(len(inside.program))
    inside.close()
    run.step()
    assert (run.seq.token_ids[-1],) == tokens


def test_only_steps_that_exist_or_come_next_can_be_entered() -> None:
    run = stepped(2)
    for step in (0, -1, 4):
        with pytest.raises(BadInputError, match=r"no step .* Choose a step from 1 to 2"):
            StepInside(run, step)
    run = finished_run()
    with pytest.raises(BadInputError, match=r"it ended \(length\)"):
        rows_of(run, len(run.records) + 1)
    inside = StepInside(run, len(run.records))
    inside.goto(len(inside.program))
    with pytest.raises(BadInputError, match="there is no place"):
        inside.goto(len(inside.program) + 1)
    inside.close()
    with pytest.raises(BadInputError, match="is over"):
        inside.goto(3)


def test_a_stage_that_fails_leaves_a_step_that_can_be_begun_anew() -> None:
    run = stepped(2)
    ok = run.engine.program
    failing = {"on": True}

    def broken(engine: object, state: StepState) -> None:
        if failing["on"]:
            raise RuntimeError("no")
        next(s for s in ok if s.name == "attn_out").fn(engine, state)  # type: ignore[arg-type]

    run.engine.program = replace_stage(ok, "attn_out", broken, layers=[1])
    inside = StepInside(run, 2)
    with pytest.raises(RuntimeError):
        inside.goto(40)
    assert inside.pc == 0
    run.engine.check()
    failing["on"] = False
    assert same(seen(inside, 40), own_tensors(2)[39])
    inside.close()
    run.engine.check()


def test_no_room_for_the_fork_is_a_sentence_and_leaves_nothing() -> None:
    run = stepped(1, params=SamplingParams(max_new_tokens=40))
    pool = run.engine.pool
    used = pool.num_used
    pool.max_blocks = pool.num_blocks
    taken = [pool.alloc() for _ in range(pool.num_free)]
    inside = StepInside(run, 1)
    with pytest.raises(OutOfBlocksError):
        inside.goto(3)
    inside.close()
    pool.release(taken)
    assert pool.num_used == used
    run.engine.check()


def test_norms_are_those_of_every_row() -> None:
    run = stepped(1)
    expected = own_tensors(1)
    inside = StepInside(run, 1)
    inside.goto(len(inside.program))
    for (place, name), norms in inside.norms.items():
        tensor = expected[place][name]
        torch.testing.assert_close(torch.from_numpy(norms), tensor.flatten(1).norm(dim=1))
        assert norms.shape == (len(PROMPT),)
    assert (13, "resid_post") in inside.norms
    inside.close()


def test_errors_are_for_people() -> None:
    run = stepped(1)
    inside = StepInside(run, 1)
    inside.goto(5)
    with pytest.raises(MiniInferError, match="choose another tensor"):
        inside.view("writes", "z", None, None)
    with pytest.raises(MiniInferError, match=r"head 99"):
        inside.view("writes", "q", 99, None)
    with pytest.raises(MiniInferError, match=r"no row 7"):
        inside.view("writes", "q", None, 7)
    inside.close()
