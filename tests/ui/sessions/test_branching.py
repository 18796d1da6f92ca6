"""Branches of a session's run."""

import math

from miniinfer.config import SamplingParams
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.trace.run import ChangeParams, ForceToken
from miniinfer.ui.ask import Ask

GREEDY = SamplingParams(temperature=0, max_new_tokens=8)


def ids(run):
    return [t.token_id for t in run.tokens]


def header(session, **selection):
    return unpack(session.message(Selection(**selection)))[0]


def test_forcing_a_token_branches_at_that_step_and_leaves_the_trunk(session):
    session.step_to(5, math.inf)
    trunk = session.timeline.current
    before = ids(trunk)
    london = trunk.next_token(1).tokens[2]
    assert london.text == " London"
    session.handle(Ask(9, "r1", force=(1, london.token_id)))
    branch = session.timeline.current
    assert session.error is None
    assert (branch.info.run_id, branch.info.parent, branch.info.edit) == ("r2", "r1", ForceToken(1, london.token_id))
    assert branch.info.name == "step 1: “␣London”"
    assert (session.timeline.cursor, len(branch.steps)) == (1, 1)
    assert header(session)["runs"][1]["forced_token"] == london.token_id
    session.step_to(4, math.inf)
    assert ids(trunk) == before
    assert ids(branch)[:6] == [*before[:5], london.token_id]
    assert [m.coin for m in branch.steps] == [m.coin for m in trunk.steps[:4]]


def test_new_settings_branch_draws_again_with_the_same_coin(session):
    session.step_to(4, math.inf)
    trunk = session.timeline.current
    session.branch(ChangeParams(2, SamplingParams(temperature=0, max_new_tokens=32)))
    branch = session.timeline.current
    assert branch.info.name == "step 2: new settings"
    assert branch.steps[1].token_id == trunk.next_token(2).tokens[0].token_id
    assert branch.steps[1].coin == trunk.steps[1].coin
    shown = [unpack(session.message(Selection(details=(s,))))[0]["details"][str(s)]["next"] for s in (1, 2)]
    assert [s["temperature"] for s in shown] == [0.8, 0], "an earlier step shows what it was drawn with"


def test_branches_share_the_blocks_of_their_prefix(session):
    session.new_run("word " * 40, GREEDY, chat=False, one_pass=True)
    session.step_to(1, math.inf)
    pool = session._engine.pool
    used = pool.num_used
    for token_id in (10, 11, 12):
        session.timeline.open("r2")
        session.branch(ForceToken(1, token_id))
    assert pool.num_used == used
    session.step_to(2, math.inf)
    assert pool.num_used <= used + 2
    session._engine.check()


def test_a_branch_from_a_shared_step_leaves_the_trunk_and_goes_on_with_its_settings(session):
    session.step_to(6, math.inf)
    session.branch(ChangeParams(4, GREEDY))
    session.step_to(7, math.inf)
    session.handle(Ask(1, "r2", force=(2, 11)))
    branch = session.timeline.current
    assert (branch.info.parent, branch.info.edit) == ("r1", ForceToken(2, 11))
    assert branch.info.params == session.timeline.get("r1").info.params != GREEDY
    name = session.timeline.get("r1").info.name
    left = f"“step 4: new settings” shares step 2 with “{name}”: the branch leaves that run"
    assert session.note == f"{left}, and goes on with its settings."
    session.step_to(4, math.inf)
    assert session.note is None
    assert branch.next_token(4).temperature == 0.8
    session.timeline.open("r2")
    session.continue_with(3, [11, 12], "typed")
    assert session.timeline.current.info.parent == "r1"
    session.timeline.open("r2")
    session.handle(Ask(2, "r2", force=(4, 11)))
    assert session.timeline.current.info.parent == "r2", "its own step"
    assert session.timeline.current.info.params == GREEDY
    assert session.note is None


def test_without_the_trunk_the_settings_of_the_step_go_on_all_the_same(session):
    session.step_to(4, math.inf)
    hot = session.timeline.current.info.params
    session.branch(ChangeParams(3, GREEDY))
    session.step_to(4, math.inf)
    session.forget("r1")
    session.branch(ForceToken(1, 11))
    assert (session.timeline.current.info.parent, session.timeline.current.info.params) == ("r2", hot)
