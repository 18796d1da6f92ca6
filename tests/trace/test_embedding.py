"""The embedding's records against the tensors of the engine and against plain loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from miniinfer.engine.embedding import Embedding
from miniinfer.engine.linear import Linear
from miniinfer.errors import BadInputError
from miniinfer.models.loader import LoadedModel
from miniinfer.trace.embedding import MatrixFacts, backwards, embed_ids, neighbours, read_matrices, unembed_row
from miniinfer.trace.parts import finished
from miniinfer.trace.sampling.place import place_of
from tests.engine.tiny import tiny_model
from tests.trace.live import PROMPT, finished_run, live_run


def facts_of(model) -> MatrixFacts:
    return finished(read_matrices(model))


def test_rows_are_what_the_embed_stage_gives_to_layer_0() -> None:
    run = live_run()
    seen: list[torch.Tensor] = []
    run.engine.step(lambda stage, state: seen.append(state.resid_pre.clone()) if stage.name == "embed" else None)
    embedded = embed_ids(run.engine.model, PROMPT)
    assert np.array_equal(embedded.rows, seen[0].numpy())
    assert np.allclose(embedded.norms, [np.sqrt((row**2).sum()) for row in embedded.rows])


def test_an_id_without_a_row_is_refused() -> None:
    for token_id in (-1, 67):
        with pytest.raises(BadInputError, match=f"no row {token_id}: the embedding has 67 rows"):
            embed_ids(tiny_model(), [3, token_id])


@torch.inference_mode()
def test_neighbours_equal_all_cosines() -> None:
    model = tiny_model()
    rows = model.weights.embedding(torch.arange(67)).double()
    cosines = torch.nn.functional.cosine_similarity(rows, rows[17:18], dim=1)
    expected = [i for i in cosines.argsort(descending=True).tolist() if i != 17][:5]
    facts = facts_of(model)
    found = neighbours(model, 17, 5, facts)
    assert found.ids.tolist() == expected
    assert np.allclose(found.cosines, cosines[expected].numpy(), atol=1e-6)
    assert np.allclose(found.norms, rows[expected].norm(dim=1).numpy(), atol=1e-5)
    assert len(neighbours(model, 17, 1000, facts).ids) == 66
    tied = dataclasses.replace(model, weights=dataclasses.replace(model.weights, unembed=Linear(rows.float())))
    assert facts_of(tied).check.same
    by_one_product = neighbours(tied, 17, 5, facts_of(tied))
    assert by_one_product.ids.tolist() == expected
    assert np.allclose(by_one_product.cosines, found.cosines, atol=1e-6)


@torch.inference_mode()
def test_a_row_of_zeros_is_near_to_nothing() -> None:
    rows = tiny_model().weights.embedding(torch.arange(67)).float()
    rows[5] = 0
    model = tiny_model()
    weights = dataclasses.replace(model.weights, embedding=Embedding.dense(rows))
    model = dataclasses.replace(model, weights=weights)
    facts = facts_of(model)
    assert not len(neighbours(model, 5, 12, facts).ids)
    others = neighbours(model, 17, 1000, facts)
    assert sorted(others.ids.tolist()) == [i for i in range(67) if i not in (5, 17)]
    assert (others.cosines >= -1).all()


@torch.inference_mode()
def test_a_tied_matrix_is_equal_in_every_row_and_another_one_is_not() -> None:
    model = tiny_model()
    facts = facts_of(model)
    other = facts.check
    rows = model.weights.embedding(torch.arange(67))
    difference = (rows - model.weights.unembed.to_dense()).abs()
    assert (other.equal_rows, other.vocab_size, other.hidden_size) == (0, 67, 28)
    assert other.largest_difference == pytest.approx(float(difference.max()))
    tied = dataclasses.replace(model, weights=dataclasses.replace(model.weights, unembed=Linear(rows.clone())))
    same = facts_of(tied).check
    assert (same.equal_rows, same.largest_difference) == (67, 0)
    assert np.array_equal(unembed_row(tied, 5, facts_of(tied)), rows[5].numpy())
    assert np.array_equal(unembed_row(model, 5, facts), model.weights.unembed.to_dense()[5].numpy())
    rows[9, 2] += 0.5
    one = dataclasses.replace(model, weights=dataclasses.replace(model.weights, unembed=Linear(rows)))
    found = facts_of(one)
    assert (found.check.equal_rows, found.check.same) == (66, False)
    assert unembed_row(one, 9, found)[2] == rows[9, 2]


def test_a_logit_is_the_final_norm_vector_times_a_row_where_the_matrix_is_tied() -> None:
    model = tiny_model()
    rows = model.weights.embedding(torch.arange(67))
    tied = dataclasses.replace(model, weights=dataclasses.replace(model.weights, unembed=Linear(rows.clone())))
    run = finished_run(model=tied)
    for step in range(1, len(run.steps) + 1):
        found = backwards(run, step)
        assert found is not None
        assert found.token_id == run.steps[step - 1].token_id
        place = place_of(run, step)
        assert place is not None
        assert found.logit == float(place.logits[found.token_id])
        assert found.product == pytest.approx(found.logit, abs=1e-4)
    assert backwards(run, 0) is None
    assert backwards(run, len(run.steps) + 1) is None
    untied = backwards(finished_run(model=model), 1)
    assert untied is not None
    assert abs(untied.product - untied.logit) > 0.1


@torch.inference_mode()
def test_the_real_matrix(model: LoadedModel) -> None:
    facts = facts_of(model)
    check = facts.check
    assert (check.tied, check.equal_rows, check.largest_difference) == (True, 49_152, 0)
    found = neighbours(model, 3575, 3, facts)
    assert [model.tokenizer.display(int(i)) for i in found.ids] == [" Capital", "capital", "Capital"]
    assert embed_ids(model, [3575]).storage == "Q8_0"
