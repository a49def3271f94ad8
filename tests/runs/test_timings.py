"""How long a run takes by earlier runs."""

from __future__ import annotations

from made_up_result import made_up

from spikelm.runs.timings import Timings


def test_of_equal_runs_the_quickest_counts() -> None:
    loaded, quiet = made_up(seconds=900.0), made_up(seconds=30.0, seed=43)
    assert Timings([loaded, quiet, loaded]).about(loaded.config) == 30.0


def test_where_the_store_has_none_the_reference_tells() -> None:
    result = made_up(seconds=30.0)
    assert Timings([]).about(result.config) is None
    assert Timings([], elsewhere=[result]).about(result.config) == 30.0
