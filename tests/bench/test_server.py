"""The bench of the server's work at its smallest setting: a real server, a real visitor, a peer of the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import peers, server, setting
from bench.batching import transformers_twin
from bench.report import Figure
from miniinfer.models.loader import LoadedModel
from tests.bench.test_benches import sane
from tests.ui.asynchronous import run


@pytest.mark.browser
def test_server(model: LoadedModel, model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"IDLE": 0.1, "SAVED_AFTER": 0.01}.items():
        monkeypatch.setattr(server, name, value)
    monkeypatch.setattr(setting, "WARM_UP", 0)
    peer = peers.Transformers(model, transformers_twin(model), attentions=True)

    async def figures() -> list[Figure]:
        async with server.served("packed") as app:
            beside = await server.beside(app, "float32", model, peer, 12, 2)
            return beside + await server.growth(app, "packed", model.tokenizer, (8, 20), 2)

    found = sane(run(figures()))
    ratio = found["float32, T = 12: a step on the server : of transformers with attentions"]
    assert ratio.most == server.MOST_OF_PEER
    whole = found["float32, T = 12: a step on the server"]
    engine = float(whole.note.split("the engine ")[1].split(" ms")[0])
    assert whole.value > engine, "the message is built and sent too"
    assert found["packed: a step on the server, 20 tokens : 8"].unit == "x"
