"""The classic faults, each as a value. Their functions stand in the files beside this one, by subject."""

from __future__ import annotations

from dataclasses import replace

from miniinfer.config import PROCESSOR_NAMES
from miniinfer.errors import BadInputError
from miniinfer.faults import attention, cache, norm, positions, prompt, sampling
from miniinfer.faults.fault import GREEDY, Fault, Met, Situation

FRANCE = Situation("The capital of France is")
FAR = 4096  # where the sequence begins in the situation of half-precision positions
LOWER = 40.0  # logits

FAULTS = (
    Fault(
        id="cache_off_by_one",
        name="Cache position off by one",
        replaced={"write_kv": cache.written_one_slot_early},
        first=("write_kv", "slot_mapping"),
        claim=(
            "Prefill is right. From the first decode step on, each token's key and value overwrite those of the token "
            "before, and its own place in the cache stays empty."
        ),
        notice=(
            "The first token and the loss in one pass are bit for bit right, and the text stays fluent, so reading it "
            "or testing a prefill proves nothing. Compute the same tokens with the cache and without it and compare "
            "all logits: they must agree within rounding."
        ),
        guard="tests/engine/test_equivalence.py::test_cached_equals_uncached",
        situation=replace(
            FRANCE, sentence="A prefill, then decode. The first token comes from prefill; look at the second one."
        ),
        met=Met(
            "The check that the cache changes nothing could not fail",
            "The fault itself was not made here, but our own comparison of cache on and off would have passed it",
        ),
    ),
    Fault(
        id="no_causal_mask",
        name="Causal mask forgotten",
        replaced={"prepare_inputs": attention.no_causal_mask},
        first=("attn_scores", "attn_scores"),
        claim=(
            "In prefill every token also reads the tokens after it. Decode has no later tokens, so a lone decode step "
            "needs no mask and is not touched itself."
        ),
        notice=(
            "A prompt of one token, and anything computed token by token, is right, so a test of those proves nothing. "
            "Change the last token of a prompt: what the model computed for the earlier ones must not move by one bit."
        ),
        guard="tests/engine/test_equivalence.py::test_chunked_prefill_equals_one_pass",
        situation=FRANCE,
    ),
    Fault(
        id="keys_without_rope",
        name="RoPE left out of cached keys",
        replaced={"rope": positions.keys_without_rope},
        first=("rope", "k"),
        claim=(
            "Queries are turned by their position, keys are cached as they are. Scores then depend on where the query "
            "stands, and no longer on how far away the key is."
        ),
        notice=(
            "Text stays made of words, because the values are right, and a prompt of one token is right altogether. "
            "Move all positions up by 100: a healthy model's logits stay, these do not."
        ),
        guard="tests/engine/test_reference.py::test_one_prompt",
        situation=FRANCE,
    ),
    Fault(
        id="wrong_rope_base",
        name="Wrong RoPE base",
        replaced={"prepare_inputs": positions.other_rope_base},
        first=("prepare_inputs", "rope_cos"),
        claim=(
            "The angles of RoPE come from the base that most code assumes, not from the one in the model's file. All "
            "but the first pair of each head turn at another speed."
        ),
        notice=(
            "“The capital of France is” still goes on with Paris, and the loss of the fixed text even falls: neither "
            "proves anything. Compare logits with those of other software, and take no default for a base that a file "
            "should say."
        ),
        guard="tests/models/test_facts.py::test_facts_of_the_default_model",
        situation=Situation("What is 7 plus 5?", chat=True),
        detail=positions.base_in_words,
    ),
    Fault(
        id="qk_rows_in_file_order",
        name="q/k rows not un-permuted",
        replaced={"qkv_proj": attention.rows_in_file_order},
        first=("qkv_proj", "q"),
        claim=(
            "GGUF files keep the rows of q and k in another order inside each head, and the loader must undo it. Left "
            "as they are, RoPE turns dimensions together that do not belong together."
        ),
        notice=(
            "It still says Paris, nearly as surely, and goes on in whole sentences. The loss of a fixed text rises and "
            "logits are off by whole units: compare both with numbers from other software."
        ),
        guard="tests/models/test_row_order.py::test_real_rows_of_layer_0",
        situation=FRANCE,
    ),
    Fault(
        id="kv_heads_tiled",
        name="KV heads tiled, not repeated",
        replaced={
            "attn_scores": attention.kv_heads_tiled_in_scores, "attn_mix": attention.kv_heads_tiled_in_mix,
        },
        first=("attn_scores", "attn_scores"),
        claim=(
            "Query head h reads key/value head h mod K, as a tiling 0 1 2 0 1 2 would have it, where h // G is right: "
            "0 0 0 1 1 1. Most heads read keys that were never made for them."
        ),
        notice=(
            "On a model with one key/value head, or as many as query heads, nothing changes, so a test on such a one "
            "proves nothing. Give each key/value head values of its own constant, and look which constant comes out of "
            "each query head."
        ),
        guard="tests/engine/test_groups.py::test_query_head_h_reads_key_value_head_h_over_g",
        situation=FRANCE,
    ),
    Fault(
        id="no_scaling",
        name="No 1/√d",
        replaced={"attn_scores": attention.scores_not_scaled},
        first=("attn_scores", "attn_scores"),
        claim=(
            "Scores are not divided by the root of the head size, so softmax puts nearly all weight on one token "
            "wherever several should share it."
        ),
        notice=(
            "Every shape is right, every row sums to 1 and the text is English. Compare one attention row with a "
            "reference, or watch the entropy of the patterns: it falls in every layer."
        ),
        guard="tests/engine/test_reference.py::test_one_prompt",
        situation=FRANCE,
    ),
    Fault(
        id="wrong_norm_eps",
        name="Norm eps wrong",
        replaced={
            "attn_norm": norm.attn_norm_with_other_eps, "mlp_norm": norm.mlp_norm_with_other_eps,
            "final_norm": norm.final_norm_with_other_eps,
        },
        first=("attn_norm", "attn_norm_out"),
        claim=(
            "Every RMS norm adds another epsilon under the root than the model's file says. Only vectors that are "
            "short to begin with notice."
        ),
        notice=(
            "Not by reading: the tokens are the same, and the loss moves in a digit that nobody prints. Compare logits "
            "at a tolerance of thousandths, or test the very value that was read from the file."
        ),
        guard="tests/models/test_facts.py::test_facts_of_the_default_model",
        situation=FRANCE,
        detail=norm.eps_in_words,
    ),
    Fault(
        id="stale_block",
        name="Stale cache block",
        replaced={"write_kv": cache.used_block_taken_for_filled},
        first=("attn_scores", "attn_scores"),
        claim=(
            "A block that another request gave back is handed out again, and the step that should fill it leaves the "
            "other request's keys and values in it. The answer is about somebody else's prompt."
        ),
        notice=(
            "In a fresh engine every run is right, so no test of a single request can find it. Run the same prompt "
            "before and after another one has used and released the blocks: both must agree bit for bit."
        ),
        guard="tests/engine/test_kv_cache.py::test_what_earlier_owners_left_in_a_block_reaches_nobody",
        situation=Situation(
            "Peter has a blue car. The colour of the car is",
            sentence="Both engines have run and released “Peter has a red car. The colour of the car is”; its block is "
            "free again and handed to this prompt.",
            earlier="Peter has a red car. The colour of the car is",
        ),
    ),
    Fault(
        id="penalty_divides",
        name="Penalty divides negative logits",
        replaced={f"processor_{i + 1}": sampling.penalty_always_divides for i in range(len(PROCESSOR_NAMES))},
        first=("processor_1", "logits"),
        claim=(
            "The repetition penalty divides the logit of every token that was seen. One below zero should be "
            "multiplied: divided, it rises, and the penalty becomes a reward."
        ),
        notice=(
            "On SmolLM2 as it is the text stays the same, because its likely tokens have logits above zero, and a loss "
            "never sees the sampler at all. Test the processor by itself, with one logit above zero and one below."
        ),
        guard="tests/engine/test_logits.py::test_repetition_looks_at_the_sign",
        situation=Situation(
            "I like apples and",
            params=replace(GREEDY, repetition_penalty=1.3),
            sentence=f"All raw logits are lowered by {LOWER:g}, as models exist whose logits are all below zero; "
            "softmax gives the same probabilities. Repetition penalty 1.3.",
            setup={"unembed": sampling.lower_logits(LOWER)},
        ),
    ),
    Fault(
        id="first_token_doubled",
        name="Special token doubled",
        prompt_edit=prompt.first_token_doubled,
        first=("prepare_inputs", "input_ids"),
        claim=(
            "The chat template writes the start token, and the tokenizer adds it once more. The prompt is one token "
            "longer and begins in a way that training never showed."
        ),
        notice=(
            "The answer is as fluent and often the same, and no sum is wrong anywhere. Compare the ids with those of "
            "the model's makers, exactly, before any logit is looked at."
        ),
        guard="tests/models/test_chat.py::test_known_prompt",
        situation=Situation(
            "Why is the sky blue?", chat=True,
            sentence="A chat message, because there the template writes the start token.",
        ),
        met=Met(
            "A raw prompt in the app lacked its start token",
            "The other way round, for real: of two ways from a text to ids, one left the start token out",
        ),
    ),
    Fault(
        id="half_precision_positions",
        name="Half-precision positions",
        replaced={"prepare_inputs": positions.half_precision_positions},
        first=("prepare_inputs", "rope_cos"),
        claim=(
            "Positions are held in bfloat16, which is exact up to 256. Beyond, neighbours share a position: two up to "
            "512, 32 of them from 4,096 to 8,192."
        ),
        notice=(
            "Up to position 256 every bit is right, so no test with a short prompt can find it. Test at a position "
            "beyond 4,096, where a healthy model answers as at position 0."
        ),
        guard="tests/faults/test_situations.py::test_a_healthy_model_answers_the_same_far_from_the_start",
        situation=replace(
            FRANCE,
            sentence=f"The prompt begins at position {FAR:,}: RoPE sees only distances, so a healthy model answers as "
            "at position 0, up to rounding.",
            setup={"prepare_inputs": positions.later_positions(FAR)},
        ),
    ),
)


def find_fault(fault_id: str) -> Fault:
    """Raises BadInputError if there is none of this id."""
    for fault in FAULTS:
        if fault.id == fault_id:
            return fault
    raise BadInputError(f"There is no fault {fault_id!r}; there are {', '.join(f.id for f in FAULTS)}.")
