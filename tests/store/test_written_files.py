"""Which files a piece of work wrote."""

from __future__ import annotations

from pathlib import Path

from spikelm.store.atomic import write_atomic
from spikelm.store.written_files import WrittenFiles


def test_new_and_rewritten_files_are_what_was_written(tmp_path: Path) -> None:
    assert WrittenFiles(tmp_path / "none").paths() == []
    for name in ("old", "same", "replaced"):
        (tmp_path / name).write_text("a")
    written = WrittenFiles(tmp_path)
    assert written.paths() == []
    write_atomic(tmp_path / "replaced", "a")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "new").touch()
    (tmp_path / "same").write_text("longer")
    assert [path.relative_to(tmp_path).as_posix() for path in written.paths()] == ["deep/new", "replaced", "same"]
