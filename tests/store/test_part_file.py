"""Files that grow, and go on where a killed command left them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spikelm.errors import SpikeLMError
from spikelm.store.part_file import growing, origins_of, part_of

MADE_OF = {"model": "a", "input": "b"}


def begin(path: Path, lines: list[str]) -> None:
    """What a command leaves that ends in the middle."""
    with growing(path, MADE_OF, 2) as part:
        part.add(lines)


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.jsonl"
    with growing(path, MADE_OF, 2) as part:
        part.add(["one", "zwei ü"])
        assert not path.exists()
        part.finish()
    assert path.read_text() == "one\nzwei ü\n"
    assert list(path.parent.iterdir()) == [path]


def test_whole_windows_are_kept_and_what_a_kill_cut_off_is_not(tmp_path: Path) -> None:
    path = tmp_path / "out"
    begin(path, ["1", "2", "3\u2028", "4", "5"])
    with part_of(path).open("a") as file:
        file.write("half a li")
    with growing(path, MADE_OF, 2) as part:
        assert part.kept == 4
        assert list(part.lines()) == ["1", "2", "3\u2028", "4"]
        part.add(["five"])
        part.finish()
    assert path.read_text() == "1\n2\n3\u2028\n4\nfive\n"


def test_a_part_of_something_else_is_not_gone_on_with_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "out"
    begin(path, ["1", "2"])
    other = {**MADE_OF, "model": "c"}
    with pytest.raises(SpikeLMError, match="begun with another model"), growing(path, other, 2):
        pass
    assert part_of(path).read_text() == "1\n2\n"
    origins_of(path).write_text("{")
    with pytest.raises(SpikeLMError, match="nothing says"), growing(path, MADE_OF, 2):
        pass
    with growing(path, other, 2, anew=True) as part:
        assert part.kept == 0
        part.finish()
    assert path.read_text() == ""


def test_a_finished_file_is_written_anew_on_request_alone(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")
    with pytest.raises(SpikeLMError, match="there already"), growing(path, MADE_OF, 2):
        pass
    with growing(path, MADE_OF, 2, anew=True) as part:
        part.add(["new"])
        assert path.read_text() == "old\n"
        part.finish()
    assert path.read_text() == "new\n"


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    code = (
        "import sys; from pathlib import Path; from spikelm.store.part_file import growing\n"
        "with growing(Path(sys.argv[1]), {}, 1): print('open', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(SpikeLMError, match="another process"), growing(path, {}, 1):
            pass
        other.communicate(b"")
    with growing(path, {}, 1) as part:
        part.finish()
