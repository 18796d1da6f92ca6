"""Links from strangers, for bench.fuzz_files: the query of an address and the cookie beside it."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch
from urllib.parse import parse_qsl, quote, unquote

from bench.fuzz_kind import Kind, folder
from bench.fuzz_mutations import BYTES, VALUES
from miniinfer.errors import BadInputError
from miniinfer.models.file_state import file_bytes
from miniinfer.models.registry import DEFAULT_MODEL, MODELS
from miniinfer.models.text import load_text
from miniinfer.store.database import RunStore
from miniinfer.store.saved_run import SavedRun
from miniinfer.ui import address
from miniinfer.ui.saving import view as saved_view
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions.model_host import ModelHost, ModelKey
from miniinfer.ui.sessions.session import Session

_text = functools.cache(load_text)  # of the one model that all links lead to
TOKEN = "abcdefghijkl"
GOOD = f"s={TOKEN}&run=r1&step=1&panel=heads&miniinfer_browser=ABCDEFGHIJKL"
STEPS = ("-1", "1e9", "٣", "9" * 400, "0x10", "", " 1", "1_0", "NaN", "²", "2147483648", "\u202e1")


class _Unloading(ModelHost):
    """Loads nothing: a link is looked at before its model is."""

    def request(self, key: ModelKey, session_id: str) -> None:
        return


def link_kind(saved: SavedRun) -> Kind:
    """saved: a run that the good link leads to."""

    @functools.cache
    def runs() -> SavedRuns:
        path = folder() / "runs.sqlite3"
        store = RunStore(path)
        size = file_bytes(MODELS[DEFAULT_MODEL].path)  # 0 where it has not been fetched: that is no reason to refuse
        store.save([replace(saved, model=replace(saved.model, source=None, file_bytes=size))])
        store.close()
        return SavedRuns(lambda: path)

    @functools.cache
    def host() -> ModelHost:
        return _Unloading()

    def read(data: bytes) -> object:
        query = dict(parse_qsl(data.decode(errors="replace"), keep_blank_values=True))
        session = Session(host(), runs())
        page = SimpleNamespace(query_params=query, session_state={}, context=SimpleNamespace(cookies=query))
        try:
            with patch.object(address, "st", page), patch.object(saved_view, "load_text", _text):
                address.read_address(session)
            if session.error is not None:
                raise BadInputError(session.error)
            return address.place_of(session)
        finally:
            session.close()

    return Kind(GOOD.encode, read, (*BYTES, link_value, link_value, link_value))


def link_value(dice: random.Random, data: bytes) -> bytes:
    """One or two of its values replaced by something else, some of them doubled or left out."""
    parts = dict(part.split("=", 1) for part in data.decode().split("&"))
    for _ in range(dice.randint(1, 2)):
        name = dice.choice(sorted(parts))
        value = str(dice.choice((*STEPS, *VALUES, parts[name][:-1], parts[name] + "\x00", unquote("%2e%2e%2fr1"))))
        parts[name] = quote(value, errors="surrogatepass") if dice.random() < 0.8 else value
    if dice.random() < 0.2:
        parts.pop(dice.choice(sorted(parts)))
    return "&".join(f"{name}={value}" for name, value in parts.items()).encode(errors="surrogatepass")
