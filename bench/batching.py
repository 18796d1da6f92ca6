"""Decode steps of eight sequences together and of one, beside the same steps by transformers: same weights, same
rounds.

The weights of the loaded model are put into transformers' own Llama class on the fly; nothing is downloaded. Ours are
float32 and packed, by torch and by the compiled core. All sides choose greedily. Transformers gets its best case, eight
prompts of one length, and the same unequal lengths as the engine, padded on the left. What the bar asks: eight together
in at most half of transformers' time, in float32 and in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from bench import decode, report, setting
from bench.passage import passage
from bench.report import Figure
from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.measure.timing import rounds_ms, timing_of
from miniinfer.models.loader import LoadedModel

TOGETHER = 8
LEAST_SPEED = 2.0  # times transformers' tokens per second
MODES = ("float32", "packed")
GREEDY = SamplingParams(temperature=0, max_new_tokens=4096)


@dataclass(frozen=True)
class Size:
    contexts: tuple[int, ...] = (64, 256, 512)
    rounds: int = 24


QUICK = Size(contexts=(64,), rounds=6)


def transformers_twin(model: LoadedModel) -> LlamaForCausalLM:
    """Transformers' Llama with the very weights of a loaded model, in float32 on the CPU."""
    c, w = model.config, model.weights
    config = LlamaConfig(
        vocab_size=c.vocab_size, hidden_size=c.hidden_size, intermediate_size=c.intermediate_size,
        num_hidden_layers=c.num_layers, num_attention_heads=c.num_heads, num_key_value_heads=c.num_kv_heads,
        head_dim=c.head_dim, max_position_embeddings=c.context_length, rms_norm_eps=c.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_base}, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    with torch.device("meta"):
        twin = LlamaForCausalLM(config)
    tensors = {
        "model.embed_tokens.weight": w.embedding(torch.arange(c.vocab_size)),
        "model.norm.weight": w.final_norm,
        "lm_head.weight": w.unembed.to_dense(),
    }
    heads = [c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim, c.num_kv_heads * c.head_dim]
    for i, layer in enumerate(w.layers):
        name = f"model.layers.{i}"
        q, k, v = layer.qkv.to_dense().split(heads)
        gate, up = layer.gate_up.to_dense().chunk(2)
        tensors |= {
            f"{name}.self_attn.q_proj.weight": q, f"{name}.self_attn.k_proj.weight": k,
            f"{name}.self_attn.v_proj.weight": v, f"{name}.self_attn.o_proj.weight": layer.attn_out.to_dense(),
            f"{name}.mlp.gate_proj.weight": gate, f"{name}.mlp.up_proj.weight": up,
            f"{name}.mlp.down_proj.weight": layer.down.to_dense(), f"{name}.input_layernorm.weight": layer.attn_norm,
            f"{name}.post_attention_layernorm.weight": layer.mlp_norm,
        }  # fmt: skip
    with torch.inference_mode(False):
        ours = {key: tensor.clone().contiguous() for key, tensor in tensors.items()}
        twin.load_state_dict(ours, assign=True)
        twin.model.rotary_emb = type(twin.model.rotary_emb)(config)  # its angles are computed, and were on "meta"
    return twin.eval().requires_grad_(False)


class TwinDecoding:
    """Sequences in the middle of a text, padded on the left to the longest. `step()` decodes one token of each."""

    def __init__(self, twin: LlamaForCausalLM, prompts: Sequence[list[int]]) -> None:
        self.twin = twin
        self.cache = DynamicCache()
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
        self.padded = len(set(map(len, prompts))) > 1
        self.mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        self.next_ids = ids
        self.output: list[torch.Tensor] = []
        self.step()

    @torch.inference_mode()
    def step(self) -> None:
        positions = (self.mask.cumsum(-1) - 1).clamp(min=0)[:, -self.next_ids.shape[1] :]
        mask = self.mask if self.padded else None
        out = self.twin(
            self.next_ids, attention_mask=mask, position_ids=positions, cache=self.cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        self.next_ids = out.logits[:, -1].argmax(-1, keepdim=True)
        self.output.append(self.next_ids[:, 0])
        self.mask = torch.cat([self.mask, torch.ones_like(self.next_ids)], dim=1)


class OurDecoding:
    """The same by the engine."""

    def __init__(self, model: LoadedModel, prompts: Sequence[list[int]]) -> None:
        self.engine = Engine(model)
        self.seqs = [self.engine.add_request(prompt, GREEDY) for prompt in prompts]
        while any(seq.num_output_tokens == 0 for seq in self.seqs):
            self.engine.step()

    def step(self) -> None:
        self.engine.step()


def measure(size: Size, models: dict[str, LoadedModel] | None = None) -> list[Figure]:
    """All figures of this bench. models: ours by name, float32 among them; the compiled core's are added."""
    ours = decode.with_native(models or {dtype: setting.load(dtype) for dtype in MODES})
    return setting.in_engine_thread(lambda: _measure(size, ours))


def _measure(size: Size, ours: dict[str, LoadedModel]) -> list[Figure]:
    twins = {"transformers float32": transformers_twin(ours["float32"])}
    twins["transformers bfloat16"] = transformers_twin(ours["float32"]).to(torch.bfloat16)
    figures: list[Figure] = []
    for context in size.contexts:
        mean = setting.middle(context, size.rounds)
        equal = [mean] * TOGETHER
        unequal = [max(1, mean * (i + 1) * 2 // (TOGETHER + 1)) for i in range(TOGETHER)]
        figures += beside(ours, twins, equal, f"8 together, {context} tokens each", size.rounds)
        figures += beside(ours, twins, unequal, f"8 together, {context} tokens on average", size.rounds)
    first = size.contexts[0]
    return figures + beside(ours, twins, [setting.middle(first, size.rounds)], f"alone, {first} tokens", size.rounds)


def beside(
    ours: Mapping[str, LoadedModel], twins: Mapping[str, LlamaForCausalLM], lengths: Sequence[int], name: str,
    rounds: int,
) -> list[Figure]:  # fmt: skip
    """All decode the same prompts, one step of each a round, in random order. The bar holds for each of ours against
    each of theirs: met by one of ours against both is what is asked."""
    jobs: dict[str, Callable[[], object]] = {}
    for mode, model in ours.items():
        jobs[mode] = OurDecoding(model, [passage(model.tokenizer, length) for length in lengths]).step
    for peer, twin in twins.items():
        jobs[peer] = TwinDecoding(twin, [passage(ours["float32"].tokenizer, length) for length in lengths]).step
    taken = rounds_ms(jobs, rounds=rounds, warm_up=setting.WARM_UP)
    count = len(lengths)
    times = {job: timing_of(values, values) for job, values in taken.items()}
    figures = [
        Figure(f"{name}: {job}", t.median_ms, "ms", p90=t.p90_ms, note=f"{1000 * count / t.median_ms:,.0f} tokens/s")
        for job, t in times.items()
    ]
    bar = 1 / LEAST_SPEED if count > 1 else None
    for mode in ours:
        for peer in twins:
            ratio = timing_of(taken[mode], taken[peer]).ratio
            note = f"{1 / ratio:.2f} times their speed"
            figures.append(Figure(f"{name}: {mode} : {peer}", ratio, "x", bar, note=note))
    return figures


if __name__ == "__main__":
    report.main("batching", __doc__ or "", measure, full=Size(), quick=QUICK)
