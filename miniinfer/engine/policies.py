"""In which order the sequences are asked for their share of a step (config.POLICIES says it in words). Plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from miniinfer.engine.sequence import Sequence, SequenceStatus

Order = Callable[[Sequence], tuple[int, ...]]


def _waits(seq: Sequence) -> bool:
    return seq.status is SequenceStatus.WAITING


ORDERS: Mapping[str, Order] = {
    "fcfs": lambda seq: (_waits(seq), seq.arrival),
    # The step of arrival added: whoever waits gains one token a step on those who come later, so nobody starves.
    "sjf": lambda seq: (_waits(seq), seq.num_tokens_left + seq.arrival_step, seq.arrival),
    "prefill-first": lambda seq: (not seq.in_prefill, seq.arrival),
    "decode-first": lambda seq: (_waits(seq), seq.in_prefill, seq.arrival),
}
