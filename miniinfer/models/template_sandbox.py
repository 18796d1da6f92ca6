"""The door to the process in which chat templates run (template_process.py): started when it is first needed, killed
when it does not answer, started anew for the next one."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from miniinfer.errors import BadInputError

CPU_SECONDS = 2.0  # of processor time for one answer; an honest template takes a thousandth of that
# The process counts its own time; on a busy machine that is long. Where the system counts for nobody (Windows, which
# limits its memory no more than its time), the clock on the wall is all there is.
WALL_SECONDS = 60.0 if hasattr(signal, "setitimer") else 10.0
PROJECT = Path(__file__).resolve().parents[2]


class TemplateStoppedError(BadInputError):
    """The template used up its time or memory."""


class TemplateSandbox:
    """One process for all templates; who comes second waits."""

    def __init__(self) -> None:
        self.seconds = CPU_SECONDS
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any]) -> dict[str, str]:
        """The process's answer. Raises TemplateStoppedError if it was ended for the time or memory that it took, and
        BadInputError if this machine starts no process."""
        line = json.dumps({**request, "seconds": self.seconds}) + "\n"
        with self._lock:
            process = self._started()
            timer = threading.Timer(WALL_SECONDS, process.kill)
            timer.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(line)
                process.stdin.flush()
                answer = process.stdout.readline()
                return dict(json.loads(answer))
            except (OSError, ValueError):  # it has gone, in the middle of a word perhaps
                self._end()
                raise TemplateStoppedError(
                    "The model's chat template takes more time or memory than a template may "
                    f"({CPU_SECONDS:.0f} seconds, 256 MB), so it was stopped: use a raw prompt."
                ) from None
            except BaseException:  # Ctrl-C, say: what it answers later is nobody's
                self._end()
                raise
            finally:
                timer.cancel()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[str]:
        """Called with the lock held."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        path = os.pathsep.join(map(str, [PROJECT, *filter(None, sys.path)]))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from miniinfer.models.template_process import main; main()"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
                cwd=PROJECT, env=os.environ | {"PYTHONPATH": path},
            )
            assert self._process.stdout is not None
            if self._process.stdout.readline() == "ready\n":
                return self._process
        except OSError as error:
            raise BadInputError(
                f"The process in which chat templates run cannot be started ({error.strerror or error}): close other "
                "programs and try again, or use a raw prompt."
            ) from error
        self._end()
        raise BadInputError(
            "The process in which chat templates run ended at once: start the app again, or use a raw prompt."
        )

    def _end(self) -> None:
        """Called with the lock held."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError, ValueError):  # what was not sent any more
                if pipe is not None:
                    pipe.close()


SANDBOX = TemplateSandbox()
atexit.register(SANDBOX.close)
