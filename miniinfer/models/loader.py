"""load_model: from a name, a GGUF file or a Hugging Face folder to everything that an engine needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from miniinfer.config import ModelConfig
from miniinfer.engine.weights import Weights
from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.models import gguf_facts, hf_facts, hf_tokenizer
from miniinfer.models.build import build_weights
from miniinfer.models.chat import ChatTemplate
from miniinfer.models.gguf import read_header
from miniinfer.models.gguf_source import GGUFSource
from miniinfer.models.json_file import read_json_object, read_optional_json_object
from miniinfer.models.llama import HF_NAMES, TensorSource, check_tensors
from miniinfer.models.registry import MODELS, Progress, resolve
from miniinfer.models.report import FactReader, LoadReport, PhaseClock
from miniinfer.models.safetensors_source import PICKLE_SUFFIXES, SafetensorsSource
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.models.vocabulary import Vocabulary, check_vocabulary

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory, shared by all users and never written."""

    name: str
    source: Path
    config: ModelConfig
    weights: Weights
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    stop_ids: frozenset[int]  # every id that the files declare as an end, and end-of-text
    token_bytes: tuple[bytes, ...]  # length V; control tokens: their spelling
    report: LoadReport

    @property
    def device(self) -> str:
        return str(self.weights.device)

    @property
    def dtype(self) -> str:
        return str(self.weights.dtype).removeprefix("torch.")

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held in memory, each once (the embedding rows included)."""
        return sum(self.report.memory_bytes.values())


def load_model(
    model: str | Path | None = None,
    *,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16"] | str = "float32",
    progress: Progress | None = None,
) -> LoadedModel:
    """model: a known name (None: the default, fetched if it is missing), a GGUF file, or a Hugging Face folder.

    device: cpu, cuda, mps, or auto (the first of cuda, mps, cpu that is there). Raises BadInputError, FetchError or
    ModelFileError; a model that was loaded before stays usable whatever happens.
    """
    if dtype not in DTYPES:
        raise BadInputError(f"dtype must be {' or '.join(DTYPES)}, not {dtype!r}.")
    place = choose_device(device)
    report: Progress = progress or (lambda text, share: None)
    path = resolve(model, progress)
    if path.is_dir():
        return _Loading(path, place, DTYPES[dtype], report).folder()
    if path.suffix in PICKLE_SUFFIXES:
        raise ModelFileError(f"{path.name} is a pickle, which can run code when it is opened: use GGUF or safetensors.")
    if path.suffix == ".safetensors":
        raise BadInputError(f"{path.name} holds weights only: give the folder that also has config.json in it.")
    return _Loading(path, place, DTYPES[dtype], report).gguf()


def choose_device(device: str) -> torch.device:
    """Raises BadInputError if this machine has no such device."""
    available: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
        "cpu": lambda: True,
    }
    if device == "auto":
        return torch.device(next(name for name, there in available.items() if there()))
    kind = device.partition(":")[0]
    if kind not in available:
        raise BadInputError(f"device must be auto, {', '.join(available)}, not {device!r}.")
    if not available[kind]():
        raise BadInputError(f"This machine has no {kind} device that torch can use: choose cpu or auto.")
    try:
        return torch.device(device)
    except RuntimeError:
        raise BadInputError(f"device must be auto, {', '.join(available)}, not {device!r}.") from None


class _Loading:
    """One attempt to load; everything it learns ends up in the report."""

    def __init__(self, path: Path, device: torch.device, dtype: torch.dtype, progress: Progress) -> None:
        self.path, self.device, self.dtype, self.progress = path, device, dtype, progress
        self.clock = PhaseClock()

    def gguf(self) -> LoadedModel:
        self.progress("Reading the header", 0.0)
        with self.clock.phase("header"):
            try:
                header = read_header(self.path)
            except OSError as error:
                raise ModelFileError(f"{self.path} cannot be read ({error.strerror or error}).") from error
            facts = FactReader(self.path, header.metadata)
            config = gguf_facts.read_config(header, facts)
        types = Counter(info.kind.name for info in header.tensors.values())
        with open(self.path, "rb") as file:
            source = GGUFSource(header, file, self.clock)
            check_tensors(source, config)
            stored = header.metadata.get("tokenizer.chat_template")
            template = stored if isinstance(stored, str) else None
            with self.clock.phase("tokenizer"):
                vocabulary = gguf_facts.read_vocabulary(facts)
            return self._finish(source, config, vocabulary, template, facts, types)

    def folder(self) -> LoadedModel:
        self.progress("Reading the folder", 0.0)
        with self.clock.phase("header"):
            facts = FactReader(self.path, read_json_object(self.path / "config.json"))
            source = SafetensorsSource(self.path, self.clock)
        with closing(source):
            config = hf_facts.read_config(facts, source.shapes)
            check_tensors(source, config, self._ignored(source, config, facts))
            generation = read_optional_json_object(self.path / "generation_config.json")
            with self.clock.phase("tokenizer"):
                vocabulary = hf_tokenizer.read_vocabulary(self.path, facts, generation, config.vocab_size)
            template = hf_tokenizer.read_chat_template(self.path)
            return self._finish(source, config, vocabulary, template, facts, Counter(source.types.values()))

    def _ignored(self, source: SafetensorsSource, config: ModelConfig, facts: FactReader) -> frozenset[str]:
        """Tensors that some folders hold and that say nothing new."""
        ignored = {name for name in source.shapes if name.endswith(".rotary_emb.inv_freq")}
        if config.tied and HF_NAMES.unembed in source.shapes:
            ignored.add(HF_NAMES.unembed)
        facts.notes += [f"The tensor {name} is in the folder and not used." for name in sorted(ignored)]
        return frozenset(ignored)

    def _finish(
        self,
        source: TensorSource,
        config: ModelConfig,
        vocabulary: Vocabulary,
        template: str | None,
        facts: FactReader,
        types: Counter[str],
    ) -> LoadedModel:
        with self.clock.phase("tokenizer"):
            check_vocabulary(vocabulary, self.path.name, config.vocab_size)
            tokenizer = Tokenizer(vocabulary, config.vocab_size, self.path.name)
            chat_template = self._chat_template(template, vocabulary, tokenizer.control_spellings, facts)
        weights = build_weights(source, config, self.device, self.dtype, self.clock, self.progress)
        memory = {"weights": weights.nbytes}
        if self.device.type == "cpu" or not config.tied:  # else the unembed matrix serves as the embedding too
            memory["embedding rows"] = weights.embedding.nbytes
        spelled = ", ".join(f"{token_id} {vocabulary.tokens[token_id]}" for token_id in sorted(vocabulary.stop_ids))
        facts.derive("stop_ids", spelled or "none", "all declared end ids, and control tokens spelled like an end")
        self.progress("Loaded", 1.0)
        return LoadedModel(
            name=_name_of(self.path),
            source=self.path,
            config=config,
            weights=weights,
            tokenizer=tokenizer,
            chat_template=chat_template,
            stop_ids=vocabulary.stop_ids,
            token_bytes=tokenizer.all_token_bytes,
            report=LoadReport(tuple(facts.facts), dict(types), memory, dict(self.clock.seconds), tuple(facts.notes)),
        )

    def _chat_template(
        self, source: str | None, vocabulary: Vocabulary, control_spellings: Sequence[str], facts: FactReader
    ) -> ChatTemplate | None:
        """None, with a note, if there is none or it cannot be parsed: the model still takes raw prompts."""
        if source is None:
            facts.notes.append("The model has no chat template, so it takes raw prompts only.")
            return None
        bos, eos = vocabulary.bos_id, min(vocabulary.declared_stop_ids, default=None)
        try:
            return ChatTemplate(
                source,
                control_tokens=control_spellings,
                bos_token="" if bos is None else vocabulary.tokens[bos],
                eos_token="" if eos is None else vocabulary.tokens[eos],
            )
        except BadInputError as error:
            facts.notes.append(str(error))
            return None


def _name_of(path: Path) -> str:
    """The known name of a fetched file, else the file's or folder's own."""
    for entry in MODELS.values():
        if path == entry.path:
            return entry.name
    return path.name if path.is_dir() else path.stem
