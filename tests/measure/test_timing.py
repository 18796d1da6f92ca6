import pytest

from miniinfer.errors import BadInputError
from miniinfer.measure.timing import compare_ms


def test_every_variant_runs_once_a_round_after_the_warm_up():
    calls = {"a": 0, "b": 0}

    def count(name):
        calls[name] += 1

    found = compare_ms({"a": lambda: count("a"), "b": lambda: count("b")}, rounds=5, warm_up=2)
    assert calls == {"a": 7, "b": 7}
    assert found["a"].rounds == 5
    assert found["a"].ratio == 1.0
    assert 0 < found["b"].median_ms <= found["b"].p90_ms


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"warm_up": -1}])
def test_nonsense_is_refused(bad):
    with pytest.raises(BadInputError):
        compare_ms({"a": lambda: None}, **bad)
    with pytest.raises(BadInputError):
        compare_ms({})
