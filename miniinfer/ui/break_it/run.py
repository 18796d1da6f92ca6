"""Runs the healthy and the broken engine side by side, in the engine's thread, and keeps what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.faults.catalogue import FRANCE
from miniinfer.faults.fault import Fault, Situation
from miniinfer.trace.lockstep import Lockstep, LockstepRecord
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.text_loss import LossRun, TextLoss
from miniinfer.ui.sessions.model_host import ModelKey
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.tokens import describe_token, encode_prompt

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.models.loader import LoadedModel

# The text whose loss is measured: what other software says about it is known.
TEXT = "The capital of France is Paris. The capital of Germany is Berlin. The capital of Italy is Rome."
MOST_PROMPT = 512  # tokens; both sides compute them, and every tensor is compared
MOST_NEW = 64
Progress = Callable[[str, float], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What is run on both sides. fault None: both are healthy, and must agree bit for bit."""

    fault: Fault | None
    prompt: str
    chat: bool
    max_new_tokens: int
    temperature: float
    seed: int

    @property
    def situation(self) -> Situation:
        return self.fault.situation if self.fault else FRANCE

    @property
    def params(self) -> SamplingParams:
        return replace(
            self.situation.params, temperature=self.temperature, seed=self.seed, max_new_tokens=self.max_new_tokens
        )


@dataclass(frozen=True)
class Answer:
    """What both sides did. Losses: (healthy, broken) of `TEXT`, whose tokens are `text`."""

    question: Question
    model: ModelKey
    pair: LockstepRecord
    text: tuple[TokenInfo, ...]
    one_pass: tuple[TextLoss, TextLoss]
    token_by_token: tuple[TextLoss, TextLoss]


class _Work(Protocol):
    def work(self) -> Iterator[int]: ...

    def close(self) -> None: ...


def run_both(session: Session, question: Question, progress: Progress) -> Answer:
    """Two engines of their own for every part, so the session's runs are not touched; all blocks are given back.

    progress: gets a sentence and a share from 0 to 1. Raises MiniInferError.
    """
    model = session.model
    if model is None:
        raise BadInputError("Both can be run once a model is loaded; how far it is stands at the top.")
    return _Bench(session, model, question, progress).answer()


class _Bench:
    def __init__(self, session: Session, model: LoadedModel, question: Question, progress: Progress) -> None:
        self.session, self.model, self.question, self.progress = session, model, question, progress

    def answer(self) -> Answer:
        from miniinfer.faults.experiment import prompt_of

        question, model = self.question, self.model
        ids = encode_prompt(model, question.prompt, chat=question.chat)
        if len(ids) > MOST_PROMPT:
            raise BadInputError(f"The prompt has {len(ids):,} tokens; at most {MOST_PROMPT} can be compared here.")
        text = model.tokenizer.encode(TEXT, parse_special=False)
        broken_text = prompt_of(question.fault, text)
        pair = self._pair(ids, prompt_of(question.fault, ids))
        losses = []
        for number, token_by_token in enumerate((False, True)):
            words = "token by token" if token_by_token else "in one pass"
            sides = [
                self._loss(fault, part, token_by_token, f"Loss of the fixed text, {words}", 0.6 + number * 0.1, skip)
                for fault, part, skip in (
                    (None, text, 0), (question.fault, broken_text, len(broken_text) - len(text)),
                )
            ]
            losses.append((sides[0], sides[1]))
        described = tuple(describe_token(model, i) for i in text)
        return Answer(question, self.session.key, pair, described, losses[0], losses[1])

    def _pair(self, ids: list[int], broken_ids: list[int]) -> LockstepRecord:
        def start() -> Lockstep:
            a, b = self._engine(None), self._engine(self.question.fault)
            return Lockstep(a, b, (ids, broken_ids), self.question.params, lambda i: describe_token(self.model, i))

        lockstep = self._in_engine(start)
        self._do(lockstep, "Both sides", self.question.max_new_tokens, 0.0, 0.6)
        return self._in_engine(lockstep.record)

    def _loss(
        self, fault: Fault | None, ids: list[int], token_by_token: bool, words: str, share: float, skip: int
    ) -> TextLoss:
        run = self._in_engine(lambda: LossRun(self._engine(fault), ids, token_by_token=token_by_token, skip=skip))
        self._do(run, words, len(ids), share, 0.1)
        return run.loss()

    def _engine(self, fault: Fault | None) -> Engine:
        from miniinfer.faults.experiment import make_engine

        situation = self.question.situation
        earlier = encode_prompt(self.model, situation.earlier, chat=False) if situation.earlier else ()
        return make_engine(self.model, situation, fault, earlier)

    def _do(self, job: _Work, words: str, expected: int, base: float, span: float) -> None:
        """One step at a time, so that other tabs' steps come in between. Blocks are given back whatever happens."""
        work = job.work()
        try:
            while (step := self._in_engine(lambda: next(work, None))) is not None:
                self.progress(f"{words}: step {step}", min(1.0, base + span * step / max(step, expected)))
        finally:
            self._in_engine(job.close)

    def _in_engine(self, job: Callable[[], T]) -> T:
        return self.session.compute(job)
