"""A small project to bootstrap in: our own code, one tiny package to install, and no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from miniinfer.cli.bootstrap import project_root

NEEDED = ("cli", "models", "engine", "*.py")


class Project:
    """A copy of the parts of MiniInfer that run before anything is installed; `models` is the subcommand to try."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project with a space"
        self.wheels = folder / "wheels"
        self.wheels.mkdir(parents=True)
        left_out = shutil.ignore_patterns("ui", "__pycache__", "examples")
        shutil.copytree(project_root() / "miniinfer", self.root / "miniinfer", ignore=left_out)
        self.folder = self.root / ".venv"
        home = folder / "home"
        home.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "MINIINFER_"))}
        self.environment = kept | {
            "HOME": str(home), "MINIINFER_HOME": str(home / "data"), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": self.wheels.as_uri(), "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "1",
        }  # fmt: skip

    def offer(self, name: str, version: str) -> None:
        """Put a wheel with one module where pip will look."""
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.wheels / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")

    def require(self, *lines: str) -> None:
        (self.root / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))

    def start(self, *arguments: str, python: str = sys.executable, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python, "-m", "miniinfer", *arguments], cwd=self.root, env=self.environment | variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str, python: str = sys.executable, **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, python=python, **variables)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)
