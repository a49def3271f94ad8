"""One look per system: readable on white and on dark, apart within every table, the same in every process and store."""

from __future__ import annotations

import colorsys
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from spikelm.config.paths import config_dir
from spikelm.report.appearance import LOOKS, NEURONS, OTHERS, SYMBOLS, look_of, look_of_preset
from spikelm.report.tables.paper_table import OWN_TABLES

PAGE_DARK = "#14171B"  # the background of the page in the dark
COLOURS = [(look.colour, look.dark_colour) for looks in LOOKS.values() for look in looks.values()]
COLOURS += [*NEURONS.values(), *OTHERS]


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01), "the grey that just misses 4.5 to 1"


@pytest.mark.parametrize("colours", COLOURS)
def test_every_colour_can_be_seen_on_its_background(colours: tuple[str, str]) -> None:
    colour, dark_colour = colours
    assert contrast(colour, "#FFFFFF") >= 3
    assert contrast(dark_colour, PAGE_DARK) >= 3


def test_no_two_known_looks_share_a_colour() -> None:
    assert len({colour for colour, _ in COLOURS}) == len(COLOURS)
    assert len({dark for _, dark in COLOURS}) == len(COLOURS)


def systems_of(path: Path) -> list[str]:
    return sorted({row["system"] for row in yaml.safe_load(path.read_text())["rows"] if row.get("system")})


@pytest.mark.parametrize("path", sorted((config_dir() / "table").glob("table*.yaml")), ids=lambda path: path.stem)
def test_systems_of_one_table_differ_in_colour_and_in_marker(path: Path) -> None:
    for one, other in combinations(systems_of(path), 2):
        ours, theirs = look_of_preset(one), look_of_preset(other)
        assert ours.marker != theirs.marker, f"{one} and {other} cannot be told apart in grey print"
        assert ours.colour != theirs.colour, f"{one} and {other} have one colour"


def hue(colour: str) -> float | None:
    """Degrees on the wheel of colours; None of a grey."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    angle, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    return 360 * angle if saturation > 0.05 else None


@pytest.mark.parametrize("table", OWN_TABLES)
def test_systems_of_our_own_tables_differ_in_colour_and_those_of_a_family_in_marker(table: str) -> None:
    """There are as many of them as markers, or more: two with one marker are of families with other hues."""
    systems = systems_of(config_dir() / "table" / f"{table}.yaml")
    assert len(systems) >= len(SYMBOLS)
    for one, other in combinations(systems, 2):
        ours, theirs = look_of_preset(one), look_of_preset(other)
        assert ours.colour != theirs.colour, f"{one} and {other} have one colour"
        if ours.marker == theirs.marker:
            hues = hue(ours.colour), hue(theirs.colour)
            apart = None in hues or abs((hues[0] - hues[1] + 180) % 360 - 180) > 45  # type: ignore[operator]
            assert apart, f"{one} and {other} cannot be told apart"


def test_time_steps_are_read_from_the_title_or_given_beside_it() -> None:
    one_step = look_of("SpikeLM", 1)
    assert one_step == look_of("SpikeLM (T=1)", 4) == look_of("SpikeLM, T=1") == look_of("SpikeLM T=1")
    assert one_step == look_of_preset("spikelm_t1")
    assert look_of("SpikeLM") == look_of("SpikeLM", 4) == look_of_preset("spikelm_t4") != one_step


def test_a_system_keeps_its_look_in_another_architecture() -> None:
    assert look_of("BART") == look_of("mBART") == look_of("BERT", 1) == look_of_preset("bert")
    assert look_of("LIF-${architecture:}*") == look_of("LIF-BERT*"), "as a file in conf/system may say it"
    assert look_of("LIF-BART", 1) == look_of_preset("lif_bart_t1") != look_of_preset("lif_bert")


def test_runs_that_are_called_by_their_neuron_have_its_colour() -> None:
    one, two, other = (look_of(f"BERT with {made}") for made in ("bispike T=1 k=2", "bispike T=4 k=3", "lif T=1"))
    assert one.colour == two.colour != other.colour, "what is compared first differs at first sight"
    assert one.marker != two.marker
    assert look_of("BART with lif", 1).colour == other.colour


def test_what_departs_from_a_system_has_a_look_of_its_own() -> None:
    known = [look for looks in LOOKS.values() for look in looks.values()]
    for title in ("SpikeLM (neuron=psn)", "SpikeLM (T=2)", "my neuron"):
        assert look_of(title) not in known


def test_an_unknown_system_has_the_same_look_in_every_process() -> None:
    code = "from spikelm.report.appearance import look_of; print(look_of('my neuron', 3))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert printed == {str(look_of("my neuron", 3))}
    assert len({look_of(f"neuron {number}") for number in range(40)}) > 25, "they spread over colours and markers"


def test_every_marker_is_one_of_matplotlib_and_of_plotly() -> None:
    from matplotlib.lines import Line2D

    assert set(SYMBOLS) <= set(Line2D.filled_markers)
    assert look_of("SpikeLM").symbol == "circle"
    assert {look.marker for looks in LOOKS.values() for look in looks.values()} <= set(SYMBOLS)
