"""Numbers from outside that only look as if they could be used."""

import math

import pytest

from miniinfer.checks import as_float, real


def test_a_number_is_given_back_as_a_float() -> None:
    assert [real(value) for value in (0, -1.5, 1 << 80)] == [0.0, -1.5, 2.0**80]
    assert type(real(3)) is float


@pytest.mark.parametrize("value", [10**400, -(10**400), math.inf, math.nan, True, "1", None])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a finite number was expected"):
        real(value)


def test_a_whole_number_that_no_float_holds_is_infinite() -> None:
    assert (as_float(10**400), as_float(-(10**400)), as_float(7)) == (math.inf, -math.inf, 7.0)
