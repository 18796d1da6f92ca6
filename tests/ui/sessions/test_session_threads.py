"""Two users at once, and one user whose clicks arrive while a step is running."""

import math
import threading

from miniinfer.config import SamplingParams
from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.ui.ask import Ask
from tests.ui.waiting import at_once

PROMPTS = ("The capital of France is", "Once upon a time there was a")


def started(session, prompt, **settings):
    session.new_run(prompt, SamplingParams(max_new_tokens=8, **settings), chat=False, one_pass=True)
    return session.timeline.current


def outcome(run):
    """What a user sees of a run; wall times differ."""
    metas = [(m.step, m.context_len, m.token_id, m.logprob, m.coin, m.kv_used_bytes) for m in run.steps]
    return metas, [t.token_id for t in run.tokens], run.finish_reason


def test_two_users_stepping_at_once_each_get_their_solo_run(new_session):
    alone = []
    for seed, prompt in enumerate(PROMPTS):
        session = new_session()
        run = started(session, prompt, seed=seed)
        session.step_to(8, math.inf)
        alone.append((outcome(run), run.rows_at(9).tobytes()))
    together = [new_session(), new_session()]
    runs = [started(s, prompt, seed=seed) for seed, (s, prompt) in enumerate(zip(together, PROMPTS, strict=True))]

    def step(session):
        for number in range(1, 9):  # eight clicks
            session.handle(Ask(number, "r1", want=number, cursor=number))
            unpack(session.message(Selection(details=(number,))))

    at_once(*(lambda s=s: step(s) for s in together))
    assert [(outcome(run), run.rows_at(9).tobytes()) for run in runs] == alone
    assert runs[0].engine is not runs[1].engine
    assert runs[0].seq.block_table[0] == runs[1].seq.block_table[0], "blocks of two pools, numbered alike"


def test_others_take_their_turn_between_the_layers_of_a_long_prompt(session):
    """A prompt of a thousand tokens takes seconds, and thirty people wait for a step of some milliseconds."""
    run = started(session, PROMPTS[0] * 4)
    advance, worker, seen = run.engine.advance, session.host.worker, []

    def spy(state, **kwargs):
        if len(seen) < 3:  # somebody else asks at the beginning of each part
            seen.append(worker.submit(lambda: (state.pc, run.seq.num_computed_tokens), key="somebody else"))
        return advance(state, **kwargs)

    run.engine.advance = spy
    session.step_to(1, math.inf)
    first, second, third = (asked.result(0) for asked in seen)
    assert 0 < first[0] <= second[0] < third[0] < len(run.engine.program)
    assert [computed for _, computed in (first, second, third)] == [0, 0, 0], "before the step was committed"
    assert len(run.steps) == 1


def test_a_click_in_the_middle_of_a_step_commits_whole_steps_only(session):
    solo = started(session, PROMPTS[1])
    session.step_to(8, math.inf)
    run = started(session, PROMPTS[1])
    inside, clicked = threading.Event(), threading.Event()
    recorder = run._recorder
    stages = []

    class Stopping:
        """The run's recorder; stops the first step half way through its layers until somebody has clicked."""

        def __getattr__(self, name):
            return getattr(recorder, name)

        def __call__(self, stage, state):
            recorder(stage, state)
            stages.append(stage.name)
            if stage.layer == 15 and not inside.is_set():
                inside.set()
                assert clicked.wait(30)

    run._recorder = Stopping()

    def first():
        session.handle(Ask(1, "r3", want=3, cursor=3))

    def second():
        assert inside.wait(30)
        assert run.steps == [], "the step that is being computed does not exist yet"
        assert len(run.tokens) == run.info.num_prompt_tokens
        clicker = threading.Thread(target=session.handle, args=(Ask(2, "r3", want=2, cursor=1),))
        clicker.start()
        clicked.set()
        clicker.join(30)
        assert not clicker.is_alive()

    at_once(first, second)
    assert session.error is None
    session.step_to(8, math.inf)
    assert stages.count("commit") == len(run.steps) == 8
    assert outcome(run) == outcome(solo)
    session._engine.check()


def test_pages_drawn_while_another_thread_steps_show_whole_steps(session):
    """A full run of the page may start while a fragment of the same tab is still stepping."""
    run = started(session, PROMPTS[0])
    done = threading.Event()

    def step():
        for number in range(1, 9):
            session.handle(Ask(number, "r2", want=number, cursor=number))
            session.new_run("Hi", SamplingParams(), chat=False, one_pass=True)
        done.set()

    def draw():
        while not done.is_set():
            found = session.transport(True)
            assert found["cursor"] <= found["last"] == len(found["meta"])
            for each in session.timeline:
                assert [m.step for m in each.steps] == list(range(1, len(each.steps) + 1))
                assert len(each.tokens) >= each.info.num_prompt_tokens
            header, _ = unpack(session.message(Selection()))
            assert len(header["meta"]) == header["last"]
            assert header["run"]["id"] in [r["id"] for r in header["runs"]]

    at_once(step, draw, draw)
    assert [m.step for m in run.steps] == list(range(1, len(run.steps) + 1))
    assert [t.token_id for t in run.tokens] == run.seq.token_ids


def test_the_same_click_twice_at_once_is_one_step(session):
    run = started(session, PROMPTS[0])
    ask = Ask(1, "r2", want=1, cursor=1)
    at_once(*(lambda: session.handle(ask) for _ in range(4)))
    assert (len(run.steps), session.timeline.cursor) == (1, 1)
