"""What the keys of a GGUF file say: the model's config and its vocabulary."""

from __future__ import annotations

import reprlib

import numpy as np

from miniinfer.config import ModelConfig
from miniinfer.models.gguf import GGUFHeader
from miniinfer.models.llama import GGUF_NAMES, checked_config
from miniinfer.models.report import FactReader
from miniinfer.models.vocabulary import Vocabulary, parse_merges

ARCHITECTURE = "llama"
# GGUF's numbers for kinds of tokens; 1 is a plain token, 5 an unused one, 6 a byte.
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
STOP_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
NEUTRAL = (0, 0.0, False, "", "none")


def read_config(header: GGUFHeader, facts: FactReader) -> ModelConfig:
    """Raises ModelFileError for another architecture, a missing key, and every key that would change the model in a
    way that MiniInfer does not know."""
    architecture = facts.text("architecture", "general.architecture")
    if architecture != ARCHITECTURE:
        raise facts.error(f"has the architecture {reprlib.repr(architecture)}, but only {ARCHITECTURE!r} is known")
    if facts.has("split.count") and facts.whole("file parts", "split.count") > 1:
        raise facts.error("is one part of a model split into several files: join them with `llama-gguf-split --merge`")
    _refuse_rope_scaling(facts)
    heads = facts.whole("num_heads", "llama.attention.head_count")
    hidden = facts.whole("hidden_size", "llama.embedding_length")
    config = checked_config(
        header.path,
        architecture=architecture,
        num_layers=facts.whole("num_layers", "llama.block_count"),
        num_heads=heads,
        num_kv_heads=_num_kv_heads(facts, heads),
        head_dim=_head_dim(facts, hidden, heads),
        hidden_size=hidden,
        intermediate_size=facts.whole("intermediate_size", "llama.feed_forward_length"),
        vocab_size=_vocab_size(header, facts),
        context_length=facts.whole("context_length", "llama.context_length"),
        rope_base=facts.real("rope_base", "llama.rope.freq_base"),
        norm_eps=facts.real("norm_eps", "llama.attention.layer_norm_rms_epsilon"),
        tied=_tied(header, facts),
    )
    if facts.has("llama.rope.dimension_count"):
        rotated = facts.whole("rope_dimensions", "llama.rope.dimension_count")
        if rotated != config.head_dim:
            raise facts.error(f"rotates {rotated} of {config.head_dim} dimensions of a head, which MiniInfer cannot do")
    _refuse_unknown_keys(facts)
    return config


def _refuse_rope_scaling(facts: FactReader) -> None:
    key = "llama.rope.scaling.type"
    if not facts.has(key):
        facts.derive("rope_scaling", "none", f"no key {key}: positions are not scaled")
    elif (scaling := facts.text("rope_scaling", key)) != "none":
        raise facts.error(f"scales RoPE in the way {reprlib.repr(scaling)}, which MiniInfer does not know")


def _num_kv_heads(facts: FactReader, heads: int) -> int:
    if facts.has("llama.attention.head_count_kv"):
        return facts.whole("num_kv_heads", "llama.attention.head_count_kv")
    return facts.derive("num_kv_heads", heads, "no key llama.attention.head_count_kv: as many as query heads")


def _head_dim(facts: FactReader, hidden: int, heads: int) -> int:
    key, value_key = "llama.attention.key_length", "llama.attention.value_length"
    if facts.has(key):
        head_dim = facts.whole("head_dim", key)
    elif heads > 0 and hidden % heads == 0:
        head_dim = facts.derive("head_dim", hidden // heads, f"no key {key}: hidden size / query heads")
    else:
        raise facts.error(f"has no key {key}, and {hidden} hidden dimensions do not divide among {heads} heads")
    if facts.has(value_key) and facts.whole("value_length", value_key) != head_dim:
        raise facts.error(f"has values of another length than its keys ({head_dim}), which MiniInfer cannot run")
    return head_dim


def _vocab_size(header: GGUFHeader, facts: FactReader) -> int:
    embedding = header.tensors.get(GGUF_NAMES.embedding)
    if embedding is None:
        raise facts.error(f"missing tensor {GGUF_NAMES.embedding}")
    rows, key = embedding.shape[0], "llama.vocab_size"
    if not facts.has(key):
        return facts.derive("vocab_size", rows, f"no key {key}: as many as {GGUF_NAMES.embedding} has rows")
    if (stated := facts.whole("vocab_size", key)) != rows:
        raise facts.error(f"says {stated} tokens in {key}, but {GGUF_NAMES.embedding} has {rows} rows")
    return rows


def _tied(header: GGUFHeader, facts: FactReader) -> bool:
    if GGUF_NAMES.unembed in header.tensors:
        return facts.read("tied", f"tensor {GGUF_NAMES.unembed}", False)
    return facts.derive("tied", True, f"no tensor {GGUF_NAMES.unembed}: the embedding is also the unembed matrix")


def _refuse_unknown_keys(facts: FactReader) -> None:
    """A key of the architecture that was not read and is not plainly off may change the model's mathematics."""
    known = {fact.why for fact in facts.facts}
    for key, value in facts.keys.items():
        if not key.startswith("llama.") or key in known:
            continue
        if not isinstance(value, int | float | str) or value not in NEUTRAL:
            raise facts.error(f"sets {key} to {reprlib.repr(value)}, which MiniInfer does not know how to follow")
        facts.notes.append(f"{key} is {value!r}: switched off, so it is not used.")


def read_vocabulary(facts: FactReader) -> Vocabulary:
    """The byte-level BPE vocabulary of the file. Raises ModelFileError for any other kind."""
    kind = facts.text("tokenizer", "tokenizer.ggml.model")
    if kind != "gpt2":
        raise facts.error(f"has a tokenizer of the kind {reprlib.repr(kind)}, but only 'gpt2' is known")
    pre = facts.text("pre_tokenizer", "tokenizer.ggml.pre")
    tokens, merges = _strings(facts, "tokenizer.ggml.tokens"), _strings(facts, "tokenizer.ggml.merges")
    types = _types(facts, len(tokens))
    control = frozenset(np.flatnonzero((types == CONTROL) | (types == UNKNOWN)).tolist())
    return Vocabulary(
        tokens=tuple(tokens),
        merges=parse_merges(merges, facts.path.name),
        pre=pre,
        control=control,
        user_defined=frozenset(np.flatnonzero(types == USER_DEFINED).tolist()),
        bos_id=_token_id(facts, "bos_token_id"),
        add_bos=_add_bos(facts),
        declared_stop_ids=frozenset(token_id for key in STOP_KEYS if (token_id := _token_id(facts, key)) is not None),
    )


def _strings(facts: FactReader, key: str) -> list[str]:
    value = facts.keys.get(key)
    if not isinstance(value, list):
        raise facts.error(f"has no list of strings {key}, without which no text can be cut into tokens")
    return value


def _types(facts: FactReader, count: int) -> np.ndarray:
    key = "tokenizer.ggml.token_type"
    types = facts.keys.get(key)
    if types is None:
        facts.derive("control tokens", "none", f"no key {key}: every token is plain text")
        return np.ones(count, np.int32)
    if not isinstance(types, np.ndarray) or types.shape != (count,):
        raise facts.error(f"must give each of its {count} tokens a type in {key}")
    return types


def _token_id(facts: FactReader, key: str) -> int | None:
    full_key = f"tokenizer.ggml.{key}"
    return facts.whole(key, full_key) if facts.has(full_key) else None


def _add_bos(facts: FactReader) -> bool:
    key = "tokenizer.ggml.add_bos_token"
    if facts.has(key):
        return facts.truth("add_bos", key)
    return facts.derive("add_bos", False, f"no key {key}: byte-level BPE puts nothing in front of a text")
