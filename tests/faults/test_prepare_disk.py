"""spikelm-prepare on a disk that is full (a small tmpfs): a message, and it goes on when there is room."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_disk import fill, small_disk  # noqa: F401 (a fixture)

from spikelm.cli.prepare import prepare_main
from spikelm.data.tokens import prepare
from spikelm.errors import SpikeLMError

pytestmark = [pytest.mark.slow, pytest.mark.faults]


def test_a_full_disk_stops_a_preparation_that_goes_on_when_there_is_room(
    small_disk: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepare, "SHARD", 20_000)
    text = tmp_path / "text"
    text.mkdir()
    (text / "one.txt").write_text("\n\n".join(f"Number {n} sat on the mat. " * 30 for n in range(500)))
    words = [
        "task=pretrain",
        "scale=smoke",
        "source=local",
        f"source.root={text}",
        "source.documents=1000",
        "--workers=1",
    ]
    assert prepare_main([*words, f"runs_dir={tmp_path / 'whole'}"]) == 0
    runs = small_disk / "runs"
    for leave in (50_000, 80_000, 120_000):  # bytes beside what the attempt before has written
        filler = fill(small_disk, leave)
        with pytest.raises(SpikeLMError, match="cannot write to") as told:
            prepare_main([*words, f"runs_dir={runs}"])
        filler.unlink()
        assert "runs_dir=OTHER" in str(told.value)
        assert not list(runs.glob(".cache/prepared/*/manifest.json"))
    assert prepare_main([*words, f"runs_dir={runs}"]) == 0
    for path in (tmp_path / "whole" / ".cache").glob("[ep]*/*/*"):
        assert (runs / path.relative_to(tmp_path / "whole")).read_bytes() == path.read_bytes()
