"""A tiny random llama written to disk as a GGUF file and as a Hugging Face folder, by writers of our own.

Sizes differ from each other so that a wrong axis fails; rows are multiples of 32 so that block types can be used.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from miniinfer.models.byte_alphabet import CHARACTER_OF

LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, MLP, CONTEXT = 2, 6, 2, 16, 64, 160, 128
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = [("h", "e"), ("he", "l"), ("l", "o"), ("hel", "lo"), ("Ġ", "t"), ("Ġt", "he"), ("Ċ", "Ċ")]
TOKENS = [*CONTROL, *CHARACTER_OF.values(), *("".join(pair) for pair in MERGES)]
VOCAB = len(TOKENS)
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10  # GGUF's numbers for the types of values

type_of = {bool: BOOL, int: U32, float: F32, str: STRING}

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": LAYERS,
    "llama.context_length": CONTEXT,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": MLP,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.key_length": HEAD_DIM,
    "llama.attention.value_length": HEAD_DIM,
    "llama.rope.freq_base": 5000.0,
    "llama.rope.dimension_count": HEAD_DIM,
    "llama.attention.layer_norm_rms_epsilon": 2.0**-17,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": np.array([3] * len(CONTROL) + [1] * (VOCAB - len(CONTROL)), np.int32),
    "tokenizer.ggml.merges": [" ".join(pair) for pair in MERGES],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.chat_template": TEMPLATE,
}

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": CONTEXT,
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "rms_norm_eps": 2.0**-17,
    "vocab_size": VOCAB,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rope_theta": 5000.0,
    "rope_scaling": None,
}

TOKENIZER_JSON: dict[str, Any] = {
    "added_tokens": [{"id": i, "content": token, "special": True} for i, token in enumerate(CONTROL)],
    "normalizer": None,
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ],
    },
    "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
    "model": {
        "type": "BPE",
        "vocab": {token: i for i, token in enumerate(TOKENS)},
        "merges": [list(pair) for pair in MERGES],
    },
}


def hf_tensors(*, tied: bool = True, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights under Hugging Face names, in the model's own row order."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) / 8

    tensors = {"model.embed_tokens.weight": random(VOCAB, HIDDEN), "model.norm.weight": 1 + random(HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {
            f"{prefix}input_layernorm.weight": 1 + random(HIDDEN),
            f"{prefix}self_attn.q_proj.weight": random(HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.k_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.v_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{prefix}self_attn.o_proj.weight": random(HIDDEN, HEADS * HEAD_DIM),
            f"{prefix}post_attention_layernorm.weight": 1 + random(HIDDEN),
            f"{prefix}mlp.gate_proj.weight": random(MLP, HIDDEN),
            f"{prefix}mlp.up_proj.weight": random(MLP, HIDDEN),
            f"{prefix}mlp.down_proj.weight": random(HIDDEN, MLP),
        }
    if not tied:
        tensors["lm_head.weight"] = random(VOCAB, HIDDEN)
    return tensors


def gguf_tensors(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, tuple[int, ...], bytes]]:
    """The same weights under GGUF names: (type number, shape, bytes), the rows of q and k in GGUF's order."""
    words = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    converted = {}
    for name, tensor in tensors.items():
        heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
        array = tensor.float().numpy()
        if heads:
            array = to_gguf_order(array, heads)
        for word, theirs in words.items():
            name = name.replace(word, theirs)
        converted[name] = (0, array.shape, array.astype("<f4").tobytes())
    return converted


def to_gguf_order(rows: np.ndarray, heads: int) -> np.ndarray:
    """Row 2i of a head is the model's row i, row 2i + 1 its row i + D/2: written as a loop, to be obviously right."""
    head_dim = len(rows) // heads
    pairs = range(head_dim // 2)
    order = [head * head_dim + i + half * head_dim // 2 for head in range(heads) for i in pairs for half in (0, 1)]
    return rows[order]


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed_value(value: Any) -> bytes:
    """A GGUF value with its type number. bytes stand for themselves, so that tests can write what is wrong."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        return struct.pack("<IIQ", ARRAY, I32, len(value)) + value.astype("<i4").tobytes()
    if isinstance(value, list):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
    kind = type_of[type(value)]
    raw = {BOOL: lambda: bytes([value]), STRING: lambda: text(value)}.get(
        kind, lambda: struct.pack("<I" if kind == U32 else "<f", value)
    )()
    return struct.pack("<I", kind) + raw


def gguf_bytes(
    metadata: Mapping[str, Any] | list[tuple[str | bytes, Any]],
    tensors: Mapping[str, tuple[int, tuple[int, ...], bytes]],
    *,
    version: int = 3,
    alignment: int = 32,
    offsets: Mapping[str, int] | None = None,
) -> bytes:
    """A GGUF file. offsets: what to write instead of the true offset of a tensor."""
    keys = list(metadata.items()) if isinstance(metadata, Mapping) else metadata
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    head += b"".join(text(key) + typed_value(value) for key, value in keys)
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        data += b"\0" * (-len(data) % alignment)
        offset = (offsets or {}).get(name, len(data))
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)
        data += raw
    return head + b"\0" * (-len(head) % alignment) + data


def write_gguf(path: Path, metadata: Mapping[str, Any] = METADATA, tensors: Any = None, **options: Any) -> Path:
    path.write_bytes(gguf_bytes(metadata, gguf_tensors(hf_tensors()) if tensors is None else tensors, **options))
    return path


def write_folder(
    folder: Path,
    config: Mapping[str, Any] = CONFIG,
    tokenizer: Mapping[str, Any] = TOKENIZER_JSON,
    tensors: Mapping[str, torch.Tensor] | None = None,
    shards: int = 1,
) -> Path:
    """A Hugging Face folder; with several shards, an index says what lies where."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    tensors = hf_tensors() if tensors is None else tensors
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors")
        return folder
    weight_map = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(tensors)}
    for file_name in set(weight_map.values()):
        save_file({name: tensors[name] for name in tensors if weight_map[name] == file_name}, folder / file_name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder
