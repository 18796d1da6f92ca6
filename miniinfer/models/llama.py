"""The architecture "llama": which tensors it has, under which names they are stored, and what shapes they must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from miniinfer.config import ModelConfig
from miniinfer.errors import BadInputError, ModelFileError

if TYPE_CHECKING:  # so that a tokenizer can be loaded without torch
    import torch
    from torch import Tensor

    from miniinfer.engine.embedding import Embedding
    from miniinfer.engine.packed import Blocks

MAX_CONTEXT = MAX_VOCABULARY = 1 << 24
LISTED_NAMES = 5  # as many names as a message can hold


@dataclass(frozen=True)
class TensorNames:
    """The names that one file format gives to the tensors. layer_parts have {} for the number of the layer."""

    embedding: str
    final_norm: str
    unembed: str  # absent in a tied model
    layer_parts: Mapping[str, str]


GGUF_NAMES = TensorNames(
    "token_embd.weight",
    "output_norm.weight",
    "output.weight",
    {
        "attn_norm": "blk.{}.attn_norm.weight",
        "q": "blk.{}.attn_q.weight",
        "k": "blk.{}.attn_k.weight",
        "v": "blk.{}.attn_v.weight",
        "attn_out": "blk.{}.attn_output.weight",
        "mlp_norm": "blk.{}.ffn_norm.weight",
        "gate": "blk.{}.ffn_gate.weight",
        "up": "blk.{}.ffn_up.weight",
        "down": "blk.{}.ffn_down.weight",
    },
)

HF_NAMES = TensorNames(
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
    {
        "attn_norm": "model.layers.{}.input_layernorm.weight",
        "q": "model.layers.{}.self_attn.q_proj.weight",
        "k": "model.layers.{}.self_attn.k_proj.weight",
        "v": "model.layers.{}.self_attn.v_proj.weight",
        "attn_out": "model.layers.{}.self_attn.o_proj.weight",
        "mlp_norm": "model.layers.{}.post_attention_layernorm.weight",
        "gate": "model.layers.{}.mlp.gate_proj.weight",
        "up": "model.layers.{}.mlp.up_proj.weight",
        "down": "model.layers.{}.mlp.down_proj.weight",
    },
)


class TensorSource(Protocol):
    """Where weights are read from: an open GGUF file or Hugging Face folder."""

    path: Path
    names: TensorNames
    permuted_qk: bool  # the rows of q and k stand in GGUF's order

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Row-major shape of every tensor of the file."""
        ...

    def read(self, name: str) -> Tensor:
        """The tensor in float32, on the CPU."""
        ...

    def blocks(self, name: str) -> Blocks | None:
        """The matrix in 4-bit blocks with the numbers of the file, or None if it is not stored so."""
        ...

    def stored_as(self, name: str) -> str:
        """The storage type of a tensor, as its format calls it."""
        ...

    def stored_bytes(self, name: str) -> int:
        """Bytes that it takes in its file."""
        ...

    def embedding(self, name: str, dtype: torch.dtype) -> Embedding:
        """The matrix [V, E] kept in the file's own storage type; rows are looked up in `dtype`."""
        ...


def checked_config(path: Path, **facts: object) -> ModelConfig:
    """A ModelConfig whose contradictions are errors of the file. Raises ModelFileError."""
    try:
        config = ModelConfig(**facts)  # type: ignore[arg-type]
    except BadInputError as error:
        raise ModelFileError(f"{path.name}: {error}") from error
    if config.context_length > MAX_CONTEXT:
        raise ModelFileError(f"{path.name}: a context length of {config.context_length} is not believable.")
    if config.vocab_size > MAX_VOCABULARY:
        raise ModelFileError(f"{path.name}: a vocabulary of {config.vocab_size} tokens is not believable.")
    return config


def expected_shapes(config: ModelConfig, names: TensorNames) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor that the architecture needs."""
    hidden, mlp, vocab = config.hidden_size, config.intermediate_size, config.vocab_size
    q_rows, kv_rows = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    parts: dict[str, tuple[int, ...]] = {
        "attn_norm": (hidden,),
        "q": (q_rows, hidden),
        "k": (kv_rows, hidden),
        "v": (kv_rows, hidden),
        "attn_out": (hidden, q_rows),
        "mlp_norm": (hidden,),
        "gate": (mlp, hidden),
        "up": (mlp, hidden),
        "down": (hidden, mlp),
    }
    yield names.embedding, (vocab, hidden)
    for layer in range(config.num_layers):
        for part, shape in parts.items():
            yield names.layer_parts[part].format(layer), shape
    yield names.final_norm, (hidden,)
    if not config.tied:
        yield names.unembed, (vocab, hidden)


def check_tensors(source: TensorSource, config: ModelConfig, ignored: frozenset[str] = frozenset()) -> None:
    """Raises ModelFileError for a tensor that is missing, has another shape, or that the architecture does not use."""
    shapes, missing, used = source.shapes, [], set(ignored)
    for name, shape in expected_shapes(config, source.names):
        used.add(name)
        if name not in shapes:
            missing.append(name)
            if len(missing) > LISTED_NAMES:  # a hostile number of layers must not make this long
                break
        elif shapes[name] != shape:
            raise ModelFileError(
                f"{source.path.name}: the tensor {name} has the shape {list(shapes[name])}, "
                f"but the model's other facts ask for {list(shape)}."
            )
    if missing:
        raise ModelFileError(f"{source.path.name}: missing tensor {_listed(missing)}.")
    unused = [name for name in shapes if name not in used]
    if unused:
        raise ModelFileError(
            f"{source.path.name}: MiniInfer's llama has no use for the tensor {_listed(unused)}, "
            "so the model would compute something else than its makers meant."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:LISTED_NAMES]) + (" and more" if len(names) > LISTED_NAMES else "")
