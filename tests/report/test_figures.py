"""Figures: drawn from results alone, with what is missing named; closed forms against other sources."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canned import Canned, glue, result

from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError
from spikelm.report.figures.draw_firing import linear_rates
from spikelm.report.figures.draw_scaling import power_law
from spikelm.report.figures.draw_variance import gaussian_rate, laplace_rate, neuron_rates
from spikelm.report.figures.figures import FIGURES, draw_figure, figure_runs, load_figure, write_figure
from spikelm.report.query.selection import SelectedRun

SITES = ("qkv_in", "key_out", "value_out", "attn_out_in", "ffn1_in", "ffn2_in")


def rates(level: float) -> dict[str, float]:
    return {f"encoder.layer.{layer}.{site}": level + layer / 100 for layer in range(2) for site in SITES}


def pretrained(level: float) -> dict[str, Any]:
    rate = {"mean": level, "per_site": rates(level), "initial_per_site": rates(level / 2)}
    return result("pretrain", {"loss": 1.0}, firing_rate=rate)


def test_figures_two_to_eight_and_the_energy_are_there() -> None:
    assert ["energy", *(f"fig{n}" for n in range(2, 9))] == FIGURES
    systems = {path.stem for path in (config_dir() / "system").glob("*.yaml")}
    for id in FIGURES:
        figure = load_figure(id)
        assert {one.system for one in figure.series} <= systems
        assert figure.section
    with pytest.raises(ConfigError, match="figures: energy, fig2"):
        load_figure("9")
    assert load_figure("4").id == "fig4"


def test_a_layer_has_six_linears_whose_query_key_and_value_read_the_same_spikes() -> None:
    found = linear_rates(rates(0.2))
    assert [layer for layer, _, _ in found] == [0] * 6 + [1] * 6
    assert [name for _, name, _ in found[:6]] == ["query", "key", "value", "attention output", "FFN 1", "FFN 2"]
    assert found[7] == (1, "key", pytest.approx(0.21)), "the input of the key's linear, not its output"


def test_rates_before_and_after_training_are_drawn_and_what_is_missing_is_named(tmp_path: Path) -> None:
    store = Canned({("spikelm_t4", "pretrain", 42): pretrained(0.4)}, tmp_path)
    drawn = draw_figure("fig5", store)
    assert drawn.figure is not None
    assert set(drawn.data) == {"k = 2"}
    assert drawn.data["k = 2"]["before training"][0] == (0, "query", 0.2)
    assert drawn.runs == (store.find("spikelm_t4", "pretrain").run.id,)
    assert len(drawn.missing) == 3
    assert "spikelm-run system=spikelm_k3 task=pretrain scale=smoke source=embedded seed=42" in drawn.missing
    assert "scale=smoke, source=embedded" in drawn.caption
    paths = write_figure(drawn, tmp_path)
    assert [path.name for path in paths] == [
        f"fig5-smoke-embedded{end}" for end in (".png", ".pdf", ".svg", "-dark.svg", ".json")
    ]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    drawn = draw_figure("fig6", Canned({}, tmp_path))
    assert drawn.figure is None
    assert drawn.runs == ()
    assert len(drawn.missing) == 1
    assert write_figure(drawn, tmp_path) == []


def test_a_run_without_weights_says_so(tmp_path: Path) -> None:
    drawn = draw_figure("fig8", Canned({("spikelm_t4", "pretrain", 42): pretrained(0.4)}, tmp_path))
    assert drawn.figure is None
    assert "has no weights" in drawn.caption


def test_the_series_over_width_has_a_run_for_each_size_and_number_of_steps(tmp_path: Path) -> None:
    class Wide(Canned):
        def find(self, system: str, task: str, seed: int | None = None, extra: Any = ()) -> SelectedRun:
            found = super().find(system, task, seed, extra)
            size = int(extra[0].partition("=")[2]) ** 2
            return found._replace(result=result("pretrain", {"loss": 3.0 * size**-0.1}, parameters=size))

    store = Wide({}, tmp_path)
    widths = load_figure("fig4").widths["smoke"]
    runs = figure_runs(load_figure("fig4"), store)
    assert [run.extra[0] for run in runs] == [f"backbone.hidden={width}" for width in widths] * 2
    drawn = draw_figure("fig4", store)
    assert drawn.data["SpikeLM T=4"]["b"] == pytest.approx(0.1)
    assert drawn.data["SpikeLM T=4"]["a"] == pytest.approx(3.0)


def test_widths_of_every_scale_are_valid_models() -> None:
    from spikelm.config.compose import load_config
    from spikelm.report.figures.figures import _sizes

    for scale, sizes in load_figure("fig4").widths.items():
        config = load_config(["system=spikelm_t1", "task=pretrain", f"scale={scale}", *_sizes(sizes[0])])
        assert (config.backbone.hidden, config.backbone.intermediate) == (sizes[0], 4 * sizes[0])
        assert all(size % int(_sizes(size)[2].partition("=")[2]) == 0 for size in sizes)


def test_the_power_law_is_that_of_least_squares() -> None:
    from scipy.stats import linregress

    parameters = np.array([1e5, 3e5, 1e6])
    losses = np.array([5.0, 4.2, 3.9])
    a, b = power_law(parameters, losses)
    fitted = linregress(np.log(parameters), np.log(losses))
    assert (math.log(a), -b) == pytest.approx((fitted.intercept, fitted.slope))


def test_rates_over_variance_are_those_of_the_distributions_and_of_the_neurons() -> None:
    from scipy.stats import laplace, norm

    sigma = np.array([0.3, 1.0, 2.0])
    assert gaussian_rate(sigma, 0.5) == pytest.approx(2 * norm.sf(0.5, scale=sigma))
    assert laplace_rate(sigma, 0.5) == pytest.approx(2 * laplace.sf(0.5, scale=sigma / math.sqrt(2)))
    assert neuron_rates(sigma, elastic=False) == pytest.approx(gaussian_rate(sigma, 0.5), abs=0.005)
    assert neuron_rates(sigma, elastic=True) == pytest.approx([0.424937] * 3, abs=0.005), "facts, section 5"


def test_scores_against_energy_are_of_rows_that_have_both(tmp_path: Path) -> None:
    known = glue("spikelm_t4", 42, 60.0, 69.0) | glue("bert", 42, 70.0, 70.0)
    known["spikelm_t4", "pretrain", 42] = result("pretrain", {"loss": 1.0}, 0.5)
    drawn = draw_figure("energy", Canned(known, tmp_path))
    assert drawn.data["ours"] == {"SpikeLM, T=4": (0.5, pytest.approx(61.0))}, "BERT's pretrained run is missing"
    assert drawn.data["paper"]["BERT base"] == (51.41, 83.2)
