"""load_model: from a name, a GGUF file or a Hugging Face folder to everything that an engine needs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from miniinfer.config import ModelConfig
from miniinfer.engine.backend import ChooseBackend, always_torch
from miniinfer.engine.weights import Weights
from miniinfer.errors import BadInputError, ModelFileError, tame
from miniinfer.models import gguf_facts, hf_facts
from miniinfer.models.build import Builder
from miniinfer.models.chat import ChatTemplate
from miniinfer.models.converted.conversion import Conversion
from miniinfer.models.file_state import State, file_bytes, file_sample, file_state
from miniinfer.models.gguf_source import GGUFSource
from miniinfer.models.json_file import read_json_object
from miniinfer.models.llama import HF_NAMES, TensorSource, check_tensors
from miniinfer.models.memory_needed import check_it_fits
from miniinfer.models.packed_build import PackedBuilder
from miniinfer.models.registry import MODELS, Progress
from miniinfer.models.report import FactReader, LoadReport, PhaseClock
from miniinfer.models.safetensors_source import SafetensorsSource
from miniinfer.models.text import folder_text, gguf_text, locate, open_header
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.strangers import open_file

PACKED = "packed"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, PACKED: torch.float32}  # of what lies between products


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
    choose_backend: ChooseBackend = always_torch  # what its engines compute with
    file_bytes: int = 0  # of the weights as they were read
    file_sample: str = ""  # see file_state.py
    file_state: State = ()
    conversion: Conversion | None = None  # where its products' matrices came from; can keep a copy of them

    @property
    def device(self) -> str:
        return str(self.weights.device)

    @property
    def dtype(self) -> str:
        """float32, bfloat16 or packed."""
        return self.weights.precision

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights held in memory, each once (the embedding rows included)."""
        return sum(self.report.memory_bytes.values())


def load_model(
    model: str | Path | None = None,
    *,
    device: str = "auto",
    dtype: str = "float32",
    progress: Progress | None = None,
    choose_backend: ChooseBackend = always_torch,
) -> LoadedModel:
    """model: a known name (None: the default, fetched if it is missing), a GGUF file, or a Hugging Face folder.

    device: cpu, cuda, mps, or auto (the first of cuda, mps, cpu that is there). dtype: float32, bfloat16 or packed,
    which keeps the 4-bit blocks of a GGUF file; only the CPU can (auto then means cpu). choose_backend: what engines on
    it compute with. Raises BadInputError,
    FetchError or ModelFileError; a model that was loaded before stays usable whatever happens.
    """
    if dtype not in DTYPES:
        raise BadInputError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}.")
    place = choose_device("cpu" if dtype == PACKED and device == "auto" else device)
    if dtype == PACKED and place.type != "cpu":
        raise BadInputError(f"Packed weights run on the CPU only, not on {device}: choose cpu, or another dtype.")
    clock = PhaseClock()
    with clock.phase("find and check the file"):
        path = locate(model, progress)
    if dtype == PACKED and path.is_dir():
        raise BadInputError(
            f"Packed weights are the quantised blocks of a GGUF file, and the folder {path.name} has none: "
            "choose float32 or bfloat16, or give a GGUF file."
        )
    state = file_state(path)
    conversion = Conversion(path, dtype, place.type)
    loading = _Loading(path, place, dtype, progress or (lambda text, share: None), clock, conversion)
    model_there = loading.folder() if path.is_dir() else loading.gguf()
    with clock.phase("find and check the file"):
        size, sample = file_bytes(path), file_sample(path)
    if file_state(path) != state:  # half of it may be the old one's
        raise ModelFileError(f"{path.name} was replaced while it was read: load it again.")
    return dataclasses.replace(
        model_there, choose_backend=choose_backend, file_bytes=size, file_sample=sample, file_state=state
    )


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

    def __init__(
        self, path: Path, device: torch.device, dtype: str, progress: Progress, clock: PhaseClock,
        conversion: Conversion,
    ) -> None:  # fmt: skip
        self.path, self.device, self.dtype, self.progress, self.clock = path, device, dtype, progress, clock
        self.conversion = conversion

    def gguf(self) -> LoadedModel:
        self.progress("Reading the header", 0.0)
        with self.clock.phase("header"):
            header = open_header(self.path)
            facts = FactReader(self.path, header.metadata)
            config = gguf_facts.read_config(header, facts)
        types = Counter(info.kind.name for info in header.tensors.values())
        with open_file(self.path) as file:
            source = GGUFSource(header, file, self.clock)
            check_tensors(source, config)
            with self.clock.phase("tokenizer"):
                tokenizer, template = gguf_text(header, facts, config.vocab_size)
            return self._finish(source, config, tokenizer, template, facts, types)

    def folder(self) -> LoadedModel:
        self.progress("Reading the folder", 0.0)
        with self.clock.phase("header"):
            facts = FactReader(self.path, read_json_object(self.path / "config.json"))
            source = SafetensorsSource(self.path, self.clock)
        with closing(source):
            config = hf_facts.read_config(facts, source.shapes)
            check_tensors(source, config, self._ignored(source, config, facts))
            with self.clock.phase("tokenizer"):
                tokenizer, template = folder_text(self.path, facts, config.vocab_size)
            return self._finish(source, config, tokenizer, template, facts, Counter(source.types.values()))

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
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        facts: FactReader,
        types: Mapping[str, int],
    ) -> LoadedModel:
        check_it_fits(source, config, self.dtype, self.device)
        with self.clock.phase("take the converted copy"):
            self.conversion.look()
        packed = PackedBuilder(source, self.clock, self.conversion) if self.dtype == PACKED else None
        builder = packed or Builder(source, self.device, DTYPES[self.dtype], self.clock, self.conversion)
        weights = builder.build(config, self.progress)
        kept = tuple(packed.kept) if packed else ()
        memory = {"weights": weights.nbytes}
        if self.device.type == "cpu" or not config.tied:  # else the unembed matrix serves as the embedding too
            memory["embedding rows"] = weights.embedding.nbytes
        self.progress("Loaded", 1.0)
        return LoadedModel(
            name=_name_of(self.path),
            source=self.path,
            config=config,
            weights=weights,
            tokenizer=tokenizer,
            chat_template=template,
            stop_ids=tokenizer.vocabulary.stop_ids,
            token_bytes=tokenizer.all_token_bytes,
            report=LoadReport(
                tuple(facts.facts), dict(types), memory, dict(self.clock.seconds), tuple(facts.notes), kept
            ),
            conversion=self.conversion,
        )


def _name_of(path: Path) -> str:
    """The known name of a fetched file, else the file's or folder's own."""
    for entry in MODELS.values():
        if path == entry.path:
            return entry.name
    return tame(path.name if path.is_dir() else path.stem)
