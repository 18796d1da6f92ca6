"""The address names a page's view: a link opens it, a choice is written there, anything odd counts as no choice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from miniinfer.ui.views import slug
from tests.ui.app_test import App

PAGES = {"kv_cache": ("kv_view", "Keys and values"), "cost": ("cost_view", "Where time goes")}


def view(app: App, key: str) -> str:
    return next(group for group in app.test.button_group if group.key == key).value


@pytest.mark.parametrize("page", PAGES)
def test_a_link_opens_a_view_and_the_address_follows_a_choice(open_app: Callable[..., App], page: str) -> None:
    key, default = PAGES[page]
    app = open_app().run().open(page)
    assert view(app, key) == default
    assert app.test.query_params["panel"] == slug(default)
    group = next(group for group in app.test.button_group if group.key == key)
    other = next(option.content for option in group.proto.options if option.content != default)
    group.set_value(other)
    app.run()
    assert app.test.query_params["panel"] == slug(other)
    assert view(app.open("workspace").open(page), key) == other, "it stays chosen"


@pytest.mark.parametrize("asked", ["blocks", "<b>" * 999])
def test_what_the_address_asks_for_is_opened_if_it_is_a_view(open_app: Callable[..., App], asked: str) -> None:
    app = open_app(panel=asked).open_first("kv_cache")
    assert view(app, "kv_view") == {"blocks": "Blocks"}.get(asked, "Keys and values")
