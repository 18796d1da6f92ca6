"""`.venv` is made, found again, changed and repaired: real processes, a tiny package, no network.

The tests share one project in the order in which they stand, since making an environment takes seconds; each asks for
what it needs anew, so each also works alone.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.project import Project

WAITING = "Another start is installing"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("bootstrap"))
    project.offer("tinything", "1.0")
    project.offer("tinything", "2.0")
    project.require("# one package", "tinything==1.0")
    return project


def test_two_starts_at_once_make_one_environment(project: Project) -> None:
    starts = [project.start("models") for _ in range(2)]
    results = [(*start.communicate(timeout=120), start.returncode) for start in starts]
    for out, err, status in results:
        assert status == 0, err
        assert out.startswith("NAME")
        assert "SmolLM2-135M-Instruct" in out
    said = [err for _, err, _ in results]
    assert sum("because there is no .venv yet" in err for err in said) == 1
    assert sum("Successfully installed tinything-1.0" in err for err in said) == 1
    assert sum(WAITING in err for err in said) == 1
    assert not (project.folder / "miniinfer-unfinished").exists()


def test_a_second_start_is_silent_and_asks_nobody(project: Project) -> None:
    project.run("models")
    again = project.run("models", PIP_FIND_LINKS="", PATH="/nowhere")
    assert (again.returncode, again.stderr) == (0, "")


def test_status_and_streams_pass_through(project: Project) -> None:
    project.run("models")
    refused = project.run("models", "fetch", "Nothing")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1


def test_no_network_is_one_sentence_and_changes_nothing(project: Project) -> None:
    project.run("models")
    project.require("tinything==3.0")
    with socket.socket() as closed:  # bound but not listening: the port refuses
        closed.bind(("127.0.0.1", 0))
        refused = project.run(
            "models", PIP_NO_INDEX="", PIP_FIND_LINKS="", PIP_INDEX_URL=f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "miniinfer: The packages could not be fetched because the package index" in refused.stderr.splitlines()[-1]
    project.require("tinything==1.0")
    again = project.run("models", PIP_FIND_LINKS="")
    assert (again.returncode, again.stderr) == (0, "")


def test_changed_requirements_are_noticed(project: Project) -> None:
    project.run("models")
    project.require("tinything==2.0")
    changed = project.run("models")
    assert changed.returncode == 0
    assert "because tinything is 1.0 and must be 2.0" in changed.stderr
    project.require("tinything==1.0", "# a new comment")
    assert "must be 1.0" in project.run("models").stderr
    project.require("# another comment", "tinything==1.0")
    assert project.run("models", PIP_FIND_LINKS="").stderr == ""


def test_a_package_removed_by_hand_comes_back(project: Project) -> None:
    project.run("models")
    pip = [str(project.folder / "bin" / "python"), "-m", "pip", "uninstall", "-y", "tinything"]
    subprocess.run(pip, check=True, capture_output=True, env=project.environment)
    from_inside = project.run("models", python=str(project.folder / "bin" / "python"))
    assert from_inside.returncode == 0
    assert "because tinything 1.0 is not installed" in from_inside.stderr


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """Takes connections and never answers: pip waits."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server


def test_a_killed_installation_is_begun_anew(project: Project, silent_server: socket.socket) -> None:
    """The starter is killed while its pip goes on; the next start waits for that pip, then makes all anew."""
    project.run("models")
    project.require("tinything==2.0")
    leftover = project.folder / "lib" / "half-written"
    leftover.write_text("")
    index = f"http://127.0.0.1:{silent_server.getsockname()[1]}/simple"
    killed = project.start("models", PIP_NO_INDEX="", PIP_FIND_LINKS="", PIP_INDEX_URL=index, PIP_RETRIES="0")
    connection, _ = silent_server.accept()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    next_start = project.start("models")
    with pytest.raises(subprocess.TimeoutExpired):
        next_start.wait(1.5)
    assert leftover.exists()  # nothing is touched while the other pip lives
    silent_server.close()
    connection.close()
    out, err = next_start.communicate(timeout=120)
    killed.communicate()
    assert next_start.returncode == 0, err
    assert out.startswith("NAME")
    assert "because the last installation was interrupted" in err
    assert "Successfully installed tinything-2.0" in err
    assert not leftover.exists()


def test_ctrl_c_ends_an_installation(project: Project, silent_server: socket.socket) -> None:
    project.require("tinything==1.0")
    project.run("models")
    project.require("tinything==2.0")
    index = f"http://127.0.0.1:{silent_server.getsockname()[1]}/simple"
    process = project.start("models", PIP_NO_INDEX="", PIP_FIND_LINKS="", PIP_INDEX_URL=index, PIP_RETRIES="0")
    connection, _ = silent_server.accept()
    with connection:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert (project.folder / "miniinfer-unfinished").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(project: Project) -> None:
    project.require("tinything==1.0")
    project.run("models")
    for name in ("python", "python3"):
        link = project.folder / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to("/nowhere/python3")
    remade = project.run("models")
    assert remade.returncode == 0, remade.stderr
    assert "because there is no .venv yet" in remade.stderr


def test_an_old_environment_is_not_touched(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.require("tinything==1.0")
    (project.folder / "bin").mkdir(parents=True)
    (project.folder / "bin" / "python").write_text("")
    (project.folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.9.2\n")
    refused = project.run("models")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "holds Python 3.9, which is too old; delete that folder and start again" in refused.stderr


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.require("tinything==1.0")
    project.folder.write_text("a file where the folder should be")
    refused = project.run("models")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert ".venv cannot be written" in refused.stderr


def test_bad_arguments_install_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.require("tinything==1.0")
    assert project.run("models", "fetch", "Nothing").returncode == 2
    assert not project.folder.exists()
