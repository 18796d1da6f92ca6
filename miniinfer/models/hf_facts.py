"""What config.json of a Hugging Face folder says, in the older layout of transformers (rope_theta and rope_scaling as
keys of their own) or the newer one (both inside rope_parameters)."""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import Any

from miniinfer.config import ModelConfig
from miniinfer.models.llama import HF_NAMES, checked_config
from miniinfer.models.report import FactReader

ARCHITECTURE = "llama"
# What each switch must be, if it is there, for MiniInfer's llama to be the same model.
REQUIRED_SETTINGS: dict[str, object] = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}


def read_config(facts: FactReader, tensor_names: Collection[str]) -> ModelConfig:
    """Raises ModelFileError for another architecture, a missing key, and every setting that MiniInfer cannot follow."""
    architecture = facts.text("architecture", "model_type")
    if architecture != ARCHITECTURE:
        raise facts.error(f"has the model type {reprlib.repr(architecture)}, but only {ARCHITECTURE!r} is known")
    for key, setting in REQUIRED_SETTINGS.items():
        if facts.keys.get(key, setting) != setting:
            raise facts.error(f"sets {key} to {reprlib.repr(facts.keys[key])}, and MiniInfer can run {setting!r} only")
    if facts.has("quantization_config"):
        method = facts.keys["quantization_config"]
        raise facts.error(f"is quantised ({reprlib.repr(method)}): use the original weights or a GGUF file")
    heads = facts.whole("num_heads", "num_attention_heads")
    hidden = facts.whole("hidden_size", "hidden_size")
    return checked_config(
        facts.path,
        architecture=architecture,
        num_layers=facts.whole("num_layers", "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=_num_kv_heads(facts, heads),
        head_dim=_head_dim(facts, hidden, heads),
        hidden_size=hidden,
        intermediate_size=facts.whole("intermediate_size", "intermediate_size"),
        vocab_size=facts.whole("vocab_size", "vocab_size"),
        context_length=facts.whole("context_length", "max_position_embeddings"),
        rope_base=_rope_base(facts),
        norm_eps=facts.real("norm_eps", "rms_norm_eps"),
        tied=_tied(facts, tensor_names),
    )


def _num_kv_heads(facts: FactReader, heads: int) -> int:
    key = "num_key_value_heads"
    if facts.has(key):
        return facts.whole("num_kv_heads", key)
    return facts.derive("num_kv_heads", heads, f"no key {key}: as many as query heads")


def _head_dim(facts: FactReader, hidden: int, heads: int) -> int:
    if facts.has("head_dim"):
        return facts.whole("head_dim", "head_dim")
    if heads > 0 and hidden % heads == 0:
        return facts.derive("head_dim", hidden // heads, "no key head_dim: hidden size / query heads")
    raise facts.error(f"has no key head_dim, and {hidden} hidden dimensions do not divide among {heads} heads")


def _rope_base(facts: FactReader) -> float:
    """The base, after making sure that nothing scales the positions."""
    newer = _object(facts, "rope_parameters")
    older = _object(facts, "rope_scaling")
    for key, settings in (("rope_parameters", newer), ("rope_scaling", older)):
        kind = settings.get("rope_type", settings.get("type", "default"))
        if kind != "default":
            raise facts.error(f"scales RoPE in the way {reprlib.repr(kind)} ({key}), which MiniInfer does not know")
        unknown = settings.keys() - {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
        if unknown:
            raise facts.error(f"sets {sorted(unknown)[0]} in {key}, which MiniInfer does not know how to follow")
        _refuse_partial(facts, settings.get("partial_rotary_factor", 1.0))
    _refuse_partial(facts, facts.keys.get("partial_rotary_factor", 1.0))
    facts.derive("rope_scaling", "none", "neither rope_parameters nor rope_scaling names one: positions are not scaled")
    bases = {
        name: FactReader(facts.path, {name: value}).real(name, name)
        for name, value in (
            ("rope_parameters.rope_theta", newer.get("rope_theta")),
            ("rope_theta", facts.keys.get("rope_theta")),
        )
        if value is not None
    }
    if not bases:
        raise facts.error("the key rope_theta is missing, and MiniInfer guesses no value for it")
    if len(set(bases.values())) > 1:
        raise facts.error(f"names two different RoPE bases ({bases}), so its meaning is unclear")
    name, base = next(iter(bases.items()))
    return facts.read("rope_base", name, base)


def _object(facts: FactReader, key: str) -> dict[str, Any]:
    value = facts.keys.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise facts.error(f"{key} must be an object, not {reprlib.repr(value)}")
    return value


def _refuse_partial(facts: FactReader, factor: object) -> None:
    if factor not in (None, 1, 1.0):
        raise facts.error(f"rotates a part ({reprlib.repr(factor)}) of each head only, which MiniInfer cannot do")


def _tied(facts: FactReader, tensor_names: Collection[str]) -> bool:
    key, unembed = "tie_word_embeddings", HF_NAMES.unembed
    if facts.has(key):
        return facts.truth("tied", key)
    if unembed in tensor_names:
        return facts.derive("tied", False, f"no key {key}, but a tensor {unembed}")
    return facts.derive("tied", True, f"no key {key} and no tensor {unembed}: the embedding is also the unembed matrix")
