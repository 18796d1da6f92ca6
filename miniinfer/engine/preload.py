"""torch's machine code, brought in by a thread of its own. Standard library only.

What the dynamic linker does for torch's largest library takes 0.2 s, in which nothing else of Python runs if `import`
asks for it: the import holds Python's lock. A call by way of ctypes does not. The import finds the library there then.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from miniinfer.engine.threads import configure

LIBRARY = Path("lib", "libtorch_cpu.so")


def preload() -> threading.Thread | None:
    """Begin, and return at once; None where this is not done. `import torch` works after it in any case."""
    if sys.platform != "linux" or "torch" in sys.modules:
        return None
    configure()  # before OpenMP comes with it
    thread = threading.Thread(target=_load, name="torch-library", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    with suppress(OSError, AttributeError, ImportError, ValueError):
        found = importlib.util.find_spec("torch")
        if found is None or found.origin is None:
            return
        open_library = ctypes.CDLL(None).dlopen
        open_library.argtypes, open_library.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
        open_library(os.fsencode(Path(found.origin).parent / LIBRARY), os.RTLD_NOW | os.RTLD_LOCAL)
