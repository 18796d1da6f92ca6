"""What becomes of converted weights in one load: taken from a copy, or made from the file and then kept as one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from miniinfer.engine.linear import Linear
from miniinfer.errors import MiniInferError
from miniinfer.models.converted import copies
from miniinfer.models.converted.identity import identity
from miniinfer.models.converted.layout import Bytes, UnusableCopyError, open_copy, places, read_footer
from miniinfer.models.converted.matrices import can_keep, put_together, take_apart
from miniinfer.models.converted.memory import load_body

Names = tuple[str, ...]  # of the tensors that are joined in a matrix
Note = Mapping[str, Any] | None  # what is to be known of a matrix, as JSON
PRIORITY = 10  # of the thread that writes: it takes what others leave


class Conversion:
    """Knows every matrix of a model by the names of its tensors. `sentence` says what happened, for the page Model."""

    def __init__(self, path: Path, dtype: str, device: str) -> None:
        """path: of the model file or folder; dtype: float32, bfloat16 or packed. Copies are for the CPU."""
        self._copy: Path | None = None
        self._seen: copies.State | None = None
        self._found: dict[Names, tuple[Linear, Note]] = {}
        self._made: dict[Names, tuple[Linear, Note]] = {}
        self.sentence = "The weights were converted from the model file."
        if device != "cpu":
            return
        if copies.switched_off():
            self.sentence += f" Converted copies are switched off ({copies.SWITCH})."
            return
        with suppress(MiniInferError, OSError):
            name = identity(path, dtype)
            self._copy = copies.copies_folder() / f"{name}{copies.SUFFIX}" if name else None

    @property
    def from_copy(self) -> bool:
        """True if a copy was found, whole and right."""
        return bool(self._found)

    def look(self) -> None:
        """Take the matrices of a copy, if there is one; one that is damaged counts as none."""
        if self._copy is None:
            return
        self._seen = copies.state_of(self._copy)
        if self._seen is None:
            return
        try:
            with open_copy(self._copy) as file:
                footer = read_footer(file)
                if footer.facts["identity"] != self._copy.stem:
                    raise UnusableCopyError("It is the copy of something else.")
                body = load_body(file, footer)
            records = footer.facts["matrices"]
            sizes = [size for record in records for size in record["sizes"]]
            arrays = iter([body.bytes[at : at + size] for at, size in zip(places(sizes), sizes, strict=True)])
            self._found = {
                tuple(record["names"]): (put_together(record, arrays), record["note"]) for record in records
            }
        except (UnusableCopyError, OSError, ValueError, KeyError, TypeError):
            self._found = {}
            self.sentence = "The converted copy of an earlier start was damaged, so the weights were converted anew."
            return
        copies.mark_as_used(self._copy)
        how, size = "mapped" if body.mapped else "read", len(body.bytes)
        self.sentence = f"The converted weights were {how} from the copy of an earlier start ({size:,} bytes)."

    def take(self, names: Names) -> tuple[Linear, Note] | None:
        """The matrix of the copy that joins these tensors, with what was said of it."""
        return self._found.get(names)

    def made(self, names: Names, linear: Linear, note: Note) -> None:
        """A matrix has been converted: it goes into the copy. note: JSON."""
        self._made[names] = linear, note

    @property
    def can_be_kept(self) -> bool:
        """True if this load had to convert, and a copy of it is wanted."""
        return self._copy is not None and bool(self._made) and not self._found

    def keep(self) -> None:
        """Write the copy if this load had to convert, in this thread. Never raises MiniInferError or OSError: a copy
        that cannot be made is a sentence."""
        if self._copy is None or not self.can_be_kept:
            return
        made, self._made = self._made, {}
        if not all(can_keep(linear) for linear, _ in made.values()):
            self.sentence += " This version of torch cannot take them from a copy, so none is kept."
            return
        records: list[dict[str, Any]] = []
        pieces: list[Bytes] = []
        for names, (linear, note) in made.items():
            parts = take_apart(linear)
            sizes = [array.nbytes for array in parts.arrays]
            records.append(parts.record | {"names": list(names), "note": note, "sizes": sizes})
            pieces += parts.arrays
        before, self.sentence = self.sentence, f"{self.sentence} A copy for the next start is being written."
        try:
            facts = {"identity": self._copy.stem, "matrices": records}
            size = copies.make_copy(self._copy, facts, pieces, self._seen)
            self.sentence = f"{before} The next start takes them from a copy ({size:,} bytes)."
        except copies.NotKeptError as error:
            self.sentence = f"{before} No copy is kept for the next start: {error}."

    def keep_in_background(self) -> threading.Thread | None:
        """The same in a thread that gives way to others; None if there is nothing to keep."""
        if not self.can_be_kept:
            return None

        def keep() -> None:
            if sys.platform == "linux":  # there a thread has a priority of its own
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
            self.keep()

        thread = threading.Thread(target=keep, name="weights-copy", daemon=True)
        thread.start()
        return thread
