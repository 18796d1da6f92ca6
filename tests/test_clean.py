"""The whole project is clean for its linter and its type checker."""

import pytest

from tests.background import CHECKS, result


@pytest.mark.parametrize("name", CHECKS)
def test_the_project_is_clean(name):
    status, said = result(name)
    assert status == 0, said
