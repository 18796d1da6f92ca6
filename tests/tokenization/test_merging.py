"""Merges against the plain rule, written as slowly as it reads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from miniinfer.models.tokenizer import Tokenizer
from miniinfer.tokenization.encoding import encode_steps
from miniinfer.tokenization.merging import MergeState, Ranks, merge, states


def slow_states(symbols: str, rank_of: Ranks) -> list[MergeState]:
    """Look at all pairs again for each merge."""
    parts, found = list(symbols), []
    while True:
        ranks = [rank_of.get((parts[i], parts[i + 1])) for i in range(len(parts) - 1)]
        best = min((r for r in ranks if r is not None), default=None)
        winner = None if best is None else ranks.index(best)
        found.append(MergeState(tuple(parts), tuple(ranks), winner))
        if winner is None:
            return found
        parts[winner : winner + 2] = [parts[winner] + parts[winner + 1]]


PAIRS = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=4), st.text("ab", min_size=1, max_size=4)), unique=True, max_size=14
)


@settings(max_examples=400, deadline=None)
@given(symbols=st.text("ab", max_size=24), pairs=PAIRS)
def test_states_equal_the_plain_rule(symbols: str, pairs: list[tuple[str, str]]) -> None:
    rank_of = {pair: rank for rank, pair in enumerate(pairs)}
    merging = merge(symbols, rank_of)
    assert list(states(symbols, merging)) == slow_states(symbols, rank_of)
    assert merging.operations <= 6 * len(symbols)


def test_a_worked_example() -> None:
    """"hello" with the rules he, ll, hell (he + ll), in this order."""
    merging = merge("hello", {("h", "e"): 0, ("l", "l"): 1, ("he", "ll"): 2})
    assert merging.ranks == (0, None, 1, None)
    assert [(s.rank, s.at, s.left, s.right, s.rank_before, s.rank_after) for s in merging.steps] == [
        (0, 0, "h", "e", None, None), (1, 2, "l", "l", 2, None), (2, 0, "he", "ll", None, None),
    ]  # fmt: skip
    assert merging.parts == ("hell", "o")


def test_of_equal_ranks_the_leftmost_pair_wins_and_uses_up_its_letters() -> None:
    merging = merge("aaa", {("a", "a"): 0})
    assert [step.at for step in merging.steps] == [0]
    assert merging.parts == ("aa", "a")


def test_a_real_word_ends_in_its_tokens(tokenizer: Tokenizer) -> None:
    piece = encode_steps(tokenizer, " unbelievable", parse_special=False).pieces[0]
    assert piece.states[-1].parts == piece.parts
    assert piece.states == slow_states(piece.symbols, tokenizer.vocabulary.ranks)


def test_nothing_and_one_byte() -> None:
    assert merge("", {}).parts == ()
    assert list(states("a", merge("a", {}))) == [MergeState(("a",), (), None)]
