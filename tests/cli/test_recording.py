"""`recording`: what a run file says of itself, a web page of it, and one sentence for anything else."""

from miniinfer.cli.main import main
from miniinfer.trace.files.format import save_trace
from tests.trace.files.recorded import make_run


def test_it_says_what_is_in_the_file_and_writes_the_page(tmp_path, capsys):
    run = make_run()
    object.__setattr__(run.info, "prompt", "a\x1b[31m b")
    save_trace(run, tmp_path / "a.npz")
    assert main(["recording", str(tmp_path / "a.npz"), "--html", str(tmp_path / "a.html")]) == 0
    said = capsys.readouterr().out
    assert "steps      4, ended: length" in said
    assert "\x1b" not in said
    assert "prompt     a␛[31m b" in said
    page = (tmp_path / "a.html").read_text("utf-8")
    assert f"{len(page.encode()):,} bytes" in said
    assert "connect-src" not in page.split("<style>")[0], "nothing is allowed beside default-src 'none'"
    assert "default-src 'none'" in page


def test_what_cannot_be_done_is_one_sentence(tmp_path, capsys):
    (tmp_path / "a.npz").write_bytes(b"PK")
    for arguments, words, status in (
        ([str(tmp_path / "none.npz")], "There is no file", 2),
        ([str(tmp_path / "a.npz"), "--html", str(tmp_path / "a.npz")], "is there already", 2),
        ([str(tmp_path / "a.npz")], "is damaged or is not a MiniInfer run file", 1),
    ):
        assert main(["recording", *arguments]) == status
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
