"""What a reader sees in the figures: labels that do not cover each other, ranges, words, fonts, and a dark page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canned import Canned, glue, result

from spikelm.report.appearance import look_of_preset
from spikelm.report.figures.curves import styles
from spikelm.report.figures.direct_labels import Box, place
from spikelm.report.figures.draw_neurons import OUTSIDE, inner_range
from spikelm.report.figures.draw_scaling import fit_quality
from spikelm.report.figures.figures import Drawn, draw_figure, load_figure, write_figure
from spikelm.report.figures.style import INK, PAPER, dark, new_figure, styled
from spikelm.report.query.selection import Selection
from spikelm.report.query.sweep_runs import jobs_of

SITES = ("qkv_in", "key_out", "value_out", "attn_out_in", "ffn1_in", "ffn2_in")
TABLE3 = {"bert": 78.0, "bert_3l": 75.0, "elmo": 54.0, "spikebert": 39.0, "lif_bert_atan": 33.0, "psn_bert": 46.4}
TABLE3 |= {"lif_bert": 46.1, "spikingformer_t1": 50.0, "spikingformer_t4": 49.0, "spikelm_6l_t1": 65.0}
TABLE3 |= {"spikelm_6l_t4": 66.0, "spikelm_t1": 70.5, "spikelm_t4": 76.0}
ENERGY = (0.07, 0.037, 0.13, 0.02, 0.0022, 0.0076, 0.0074, 0.0012, 0.0056, 0.003, 0.011, 0.006, 0.021)

#: score and energy of what the table field has beside these, as crowded as trained models may be
FIELD = {"quant_ter_bert": (68.0, 0.0062), "quant2_bert": (71.0, 0.0066), "quant3_bert": (76.2, 0.0105)}
FIELD |= {"quant4_bert": (77.4, 0.0138), "spikelm_t4_symmetric": (75.6, 0.0222), "spikelm_residual_d2": (76.9, 0.0125)}
FIELD |= {"spikelm_residual_d3": (77.6, 0.0178), "residual_token_d3": (77.7, 0.0188), "place_bert": (77.5, 0.0192)}
FIELD |= {"ilif_bert": (52.0, 0.0031), "ilif_bert_signed": (66.0, 0.0061), "spikingbrain_bert": (77.8, 0.0172)}
FIELD |= {"spikellm_bert": (77.6, 0.0181), "spikezip_bert": (77.1, 0.0205), "phase_bert": (77.9, 0.0431)}
FIELD |= {"sorbet_bert": (61.0, 0.0094)}
#: perplexity of a decoder and mJ of a token in the table decoders
DECODERS = {"bert": (5.21, 0.00097), "quant_ter_bert": (6.9, 0.00008), "quant2_bert": (6.4, 0.000083)}
DECODERS |= {"quant3_bert": (5.6, 0.00013), "quant4_bert": (5.4, 0.00017), "lif_bert": (13.8, 0.00009)}
DECODERS |= {"spikelm_t1": (6.8, 0.000079), "spikelm_t4": (5.9, 0.00028), "spikelm_residual_d2": (5.7, 0.00019)}
DECODERS |= {"spikelm_residual_d3": (5.4, 0.00027), "residual_token_d3": (5.3, 0.00028), "spikegpt": (7.4, 0.0013)}
DECODERS |= {"spikingbrain_bert": (5.3, 0.00024), "phase_bert": (5.22, 0.0006)}


@pytest.fixture(scope="module")
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    """The figure that the test names, of made-up results; `deep` has twelve layers."""
    import matplotlib.pyplot as plt

    known: dict[Any, Any] = {}
    layers = 12 if request.param.endswith("deep") else 2
    for (system, score), energy in zip(TABLE3.items(), ENERGY, strict=True):
        known |= glue(system, 42, score, score)
        known[system, "pretrain", 42] = pretrained(energy, 0.5, layers)
    for system, (score, energy) in FIELD.items():
        known |= glue(system, 42, score, score)
        known[system, "pretrain", 42] = pretrained(energy, 0.5, layers)
    for system, (perplexity, energy) in DECODERS.items():
        token = {"tokens": 64, "fp32": energy, "ann_fp32": 0.00097, "lm_head_fp32": 0.0004}
        known[system, "lm/embedded", 42] = result("lm/embedded", {"perplexity": perplexity}, energy_token=token)
    known["spikelm_learnable", "pretrain", 42] = pretrained(0.02, 0.3, layers)
    known["spikelm_k3", "pretrain", 42] = pretrained(0.02, 0.002, layers)
    yield draw_figure(request.param.removesuffix("deep"), Canned(known, tmp_path_factory.mktemp("store")))
    plt.close("all")


def pretrained(energy: float, level: float, layers: int) -> Any:
    rates = {f"encoder.layer.{n}.{site}": level + n / 100 for n in range(layers) for site in SITES}
    before = {site: 0.98 * rate for site, rate in rates.items()}
    return result(
        "pretrain",
        {"loss": 1.0},
        energy,
        firing_rate={"mean": level, "per_site": rates, "initial_per_site": before},
    )


def texts(drawn: Drawn) -> list[Any]:
    """All texts with words, in the final layout; ticks beyond the limits of an axis exist and are not drawn."""
    figure = drawn.figure
    assert figure is not None
    with styled():
        figure.draw_without_rendering()
    found = [*figure.texts, figure._suptitle, figure._supxlabel, figure._supylabel]  # type: ignore[attr-defined]
    legends = [*figure.legends]
    for panel in figure.axes:
        found += [*panel.texts, panel._left_title, panel.xaxis.label, panel.yaxis.label]  # type: ignore[attr-defined]
        legends += [legend] if (legend := panel.get_legend()) else []
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            found += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_visible()]
    found += [text for legend in legends for text in (*legend.get_texts(), legend.get_title())]
    return [text for text in dict.fromkeys(found) if text is not None and text.get_text().strip()]


EVERY = pytest.mark.parametrize(
    "drawn", ["energy", "field", "decoders", "fig2", "fig3", "fig5", "fig2deep", "fig5deep"], indirect=True
)


@EVERY
def test_no_text_covers_another_one_or_leaves_the_picture(drawn: Drawn) -> None:
    assert drawn.figure is not None
    whole = drawn.figure.bbox
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(drawn)]
    assert len(boxes) > 10
    for words, box in boxes:
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, words
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1, words
    for (words, box), (others, other) in combinations(boxes, 2):
        across = min(box.x1, other.x1) - max(box.x0, other.x0)
        up = min(box.y1, other.y1) - max(box.y0, other.y0)
        assert min(across, up) < 1, f"{words!r} and {others!r} overlap"


@EVERY
def test_the_picture_itself_says_its_scale_and_source(drawn: Drawn) -> None:
    assert drawn.figure is not None
    heading = drawn.figure.get_suptitle()
    if drawn.id == "fig3":
        assert "no run is needed" in heading
    else:
        assert "ours at scale smoke, embedded micro-world, seed 42" in heading


@pytest.mark.parametrize("drawn", ["energy"], indirect=True)
def test_scores_have_one_range_and_an_honest_name(drawn: Drawn) -> None:
    assert drawn.figure is not None
    ours, paper = drawn.figure.axes
    assert ours.get_ylim() == paper.get_ylim()
    assert ours.get_ylabel() == "average of nine micro-world scores"
    assert paper.get_ylabel() == "average of nine GLUE scores"
    for panel in (ours, paper):
        assert "lower is better" in panel.get_xlabel()
    assert "Micro-world scores are not GLUE's" in drawn.caption
    named = [text.get_text() for text in ours.texts]
    assert set(drawn.data["ours"]) <= set(named), "every point has its name"
    assert len(drawn.data["ours"]) == len(TABLE3)
    look = look_of_preset("spikelm_t1")
    marks = {(line.get_marker(), line.get_color()) for line in ours.lines}
    assert (look.marker, look.colour) in marks


@pytest.mark.parametrize("drawn", ["field"], indirect=True)
def test_every_system_of_the_field_has_its_name_and_its_twin_on_a_dark_page(drawn: Drawn, tmp_path: Path) -> None:
    assert drawn.figure is not None
    whole, upper = drawn.figure.axes
    named = [{text.get_text() for text in panel.texts if text.get_text()} - {"↖ better"} for panel in (whole, upper)]
    assert named[0] | named[1] == set(drawn.data["ours"]), "every point has its name"
    assert not named[0] & named[1], "once"
    # thirteen of nineteen lie between 75.6 and 78, the next at 71
    assert named[1] == {name for name, (_, score) in drawn.data["ours"].items() if score > 75}
    assert len(named[1]) == 13
    assert upper.get_ylim()[0] > 75
    assert len(drawn.data["ours"]) == len(FIELD) + 4, "beside BERT, LIF-BERT and SpikeLM twice"
    _, _, light, night, _ = write_figure(drawn, tmp_path)
    for system in ("quant2_bert", "residual_token_d3", "phase_bert"):
        look = look_of_preset(system)
        assert look.colour.lower() in light.read_text()
        assert look.dark_colour.lower() in night.read_text()
        assert look.colour.lower() not in night.read_text()


@pytest.mark.parametrize("drawn", ["fig5"], indirect=True)
def test_bars_carry_their_names_and_numbers(drawn: Drawn) -> None:
    assert drawn.figure is not None
    panel = drawn.figure.axes[1]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["Q", "K", "V", "O", "F1", "F2"] * 2
    assert [label.get_text().strip() for label in panel.get_xticklabels(minor=True)] == ["layer 1", "layer 2"]
    numbers = [text.get_text() for text in panel.texts]
    assert numbers == ["50"] * 6 + ["51"] * 6 + ["mean 49.5% → 50.5%"]
    assert drawn.figure.axes[2].texts[0].get_text() == "0.2", "a small rate is not zero"
    assert drawn.figure.axes[3].texts[0].get_text() == "not run"
    assert panel.patches[0].get_facecolor() == pytest.approx(_rgba(look_of_preset("spikelm_t4").colour))


def _rgba(colour: str) -> tuple[float, ...]:
    return (*(int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)), 1.0)


def test_the_legend_of_the_scaling_says_how_well_the_law_fits(tmp_path: Path) -> None:
    from scipy.stats import linregress

    class Wide(Canned):
        def find(self, system: str, task: str, seed: int | None = None, extra: Any = ()) -> Any:
            found = super().find(system, task, seed, extra)
            width = int(extra[0].partition("=")[2])
            return found._replace(result=result("pretrain", {"loss": 6 - width / 20}, parameters=width**2))

    drawn = draw_figure("fig4", Wide({}, tmp_path))
    assert drawn.figure is not None
    widths = np.array(load_figure("fig4").widths["smoke"])
    fitted = linregress(np.log(widths**2.0), np.log(6 - widths / 20))
    (panel,) = drawn.figure.axes
    for text in panel.get_legend().get_texts():
        assert f"$R^2$ = {fitted.rvalue**2:.3f} (3 widths)" in text.get_text()
    assert drawn.data["SpikeLM T=4"]["r2"] == pytest.approx(fitted.rvalue**2)
    assert "lower is better" in panel.get_ylabel()
    handles = panel.get_legend().get_lines()
    assert [line.get_marker() for line in handles] == [look_of_preset(s).marker for s in ("spikelm_t1", "spikelm_t4")]


def test_a_perfect_fit_has_a_quality_of_one() -> None:
    losses = np.array([5.0, 4.0, 3.0])
    assert fit_quality(losses, losses) == 1
    assert fit_quality(losses, np.full(3, np.exp(np.log(losses).mean()))) == pytest.approx(0)


def test_histograms_are_not_squeezed_by_a_few_far_values() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    edges = np.linspace(-40, 40, 321)
    far = np.histogram(np.concatenate([values, [-39.0, 39.0]]), edges)[0] / 100_002
    low, high = inner_range(edges, [far.tolist()])
    inside = far[(edges[:-1] >= low) & (edges[1:] <= high)].sum()
    assert 1 - OUTSIDE <= inside < 1
    assert (low, high) == pytest.approx((-3.25, 3.25), abs=0.3), "the quantiles of a normal distribution"
    lopsided = np.histogram(values * np.where(values < 0, 4, 1), edges)[0] / 100_000
    low, high = inner_range(edges, [lopsided.tolist(), far.tolist()])
    assert low < -10
    assert high < 4, "each side has the range that it needs"


def test_the_neuron_figures_give_each_column_its_own_range(tmp_path: Path) -> None:
    kept = Path(__file__).parents[2] / "runs" / "reference" / "figures" / "data"
    elastic = max(kept.glob("picture-*.json"), key=lambda path: max(json.loads(path.read_text())["edges"]))
    store = Canned({("spikelm_t4", "pretrain", 42): result("pretrain", {"loss": 1.0})}, tmp_path)
    (tmp_path / "figures" / "data").mkdir(parents=True)
    id = store.find("spikelm_t4", "pretrain").run.id
    shutil.copy(elastic, tmp_path / "figures" / "data" / f"picture-{id}.json")
    drawn = draw_figure("fig8", store)
    assert drawn.figure is not None
    panels = np.array(drawn.figure.axes).reshape(-1, 3)
    for column in (0, 1):
        assert len({panel.get_xlim() for panel in panels[:, column]}) == 1
    low, high = panels[0, 0].get_xlim()
    assert high - low < 10, "the input fills its panel"
    assert abs(panels[0, 1].get_xlim()[0]) > 2 * panels[0, 1].get_xlim()[1], "the potential goes down more than up"
    assert "outside of its axis" in drawn.caption


def test_labels_find_room_among_crowded_points() -> None:
    anchors = [(100.0 + 9 * (n % 4), 100.0 + 9 * (n // 4)) for n in range(8)]
    sizes, frame = [(40.0, 8.0)] * 8, Box(0, 0, 240, 200)
    boxes = [
        Box(x + right - 20, y + up - 4, x + right + 20, y + up + 4)
        for (x, y), (right, up) in zip(anchors, place(anchors, sizes, frame), strict=True)
    ]
    assert all(one.shared(other) == 0 for one, other in combinations(boxes, 2))
    assert all(box.outside(frame) == 0 for box in boxes)


@pytest.mark.parametrize("drawn", ["fig5"], indirect=True)
def test_files_embed_their_fonts_and_follow_a_dark_page(drawn: Drawn, tmp_path: Path) -> None:
    _, pdf, light, night, _ = write_figure(drawn, tmp_path)
    fonts = pdf.read_bytes()
    assert b"/FontFile2" in fonts, "TrueType inside, which publishers ask for"
    assert b"/Type3" not in fonts
    colours = {path: set(re.findall(r"#[0-9a-f]{6}\b", path.read_text())) for path in (light, night)}
    look = look_of_preset("spikelm_t4")
    assert {INK, look.colour.lower()} <= colours[light]
    assert look.dark_colour.lower() in colours[night]
    assert not colours[night] & {INK, PAPER, "#000000", look.colour.lower()}
    size = re.compile(r'viewBox="[^"]+"')
    assert size.findall(light.read_text()) == size.findall(night.read_text())


def test_text_without_a_colour_would_be_black_in_the_dark() -> None:
    """Every glyph says its fill: an SVG's default is black, which no replacement reaches."""
    from io import StringIO

    with styled():
        figure, panel = new_figure("heading")
        panel.set_xlabel("words")
        panel.plot([0, 1], [0, 1], label="line")
        panel.legend()
        written = StringIO()
        figure.savefig(written, format="svg", transparent=True)
    glyphs = re.findall(r'<g (style="[^"]*")? ?transform="translate', dark(written.getvalue()))
    assert len(glyphs) > 5
    assert all("fill: #" in style for style in glyphs)


def test_the_heading_names_other_sources_and_seeds(tmp_path: Path) -> None:
    heading = load_figure("fig4").heading(Selection("mini", "local", (1, 2), tmp_path))
    assert heading == "Scaling of SpikeLM over its width\nours at scale mini, local data, seeds 1, 2"


def test_a_long_heading_stays_in_the_picture() -> None:
    with styled():
        figure, _ = new_figure("Title\n" + "ours at " + ", ".join(f"finetune.setting{n}=0.00{n}" for n in range(12)))
        figure.draw_without_rendering()
        box = figure._suptitle.get_window_extent()  # type: ignore[attr-defined]
    assert 0 < box.x0 < box.x1 < figure.bbox.x1
    assert figure.get_suptitle().count("\n") > 2


def test_curves_have_the_colours_of_their_systems_and_seeds_have_lines_of_their_own(tmp_path: Path) -> None:
    jobs = jobs_of(["system=spikelm_t1,bert", "task=glue/rte", "seed=1,2", "scale=smoke", f"runs_dir={tmp_path}"])
    spiking, plain = (look_of_preset(system) for system in ("spikelm_t1", "bert"))
    assert styles(jobs) == [(look.colour, line + look.marker) for look in (spiking, plain) for line in ("-", "--")]


def test_curves_of_two_systems_of_one_colour_have_lines_of_their_own(tmp_path: Path) -> None:
    jobs = jobs_of(["neuron=bispike", "k=2,3", "T=1", "task=glue/rte", "scale=smoke", f"runs_dir={tmp_path}"])
    (colour, line), (other_colour, other_line) = styles(jobs)
    assert colour == other_colour
    assert (line[:-1], other_line[:-1]) == ("-", "--")


def test_several_seeds_have_their_mean_and_an_error_bar(tmp_path: Path) -> None:
    known = {("bert", "pretrain", 42): result("pretrain", {"loss": 1.0}, 0.5)}
    known |= glue("bert", 1, 60.0, 60.0) | glue("bert", 2, 64.0, 64.0)
    drawn = draw_figure("energy", Canned(known, tmp_path, (1, 2)))
    assert drawn.figure is not None
    assert drawn.data["ours"] == {"BERT base": (0.5, pytest.approx(62.0))}
    (bar,) = drawn.figure.axes[0].collections
    (ends,) = bar.get_segments()  # type: ignore[attr-defined]
    assert ends[:, 1] == pytest.approx([62 - 8**0.5, 62 + 8**0.5]), "the sample deviation of two seeds"
    assert not drawn.figure.axes[1].collections, "the paper prints none"
    assert "seeds 1, 2" in drawn.figure.get_suptitle()
