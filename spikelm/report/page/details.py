"""What the page of one run shows, as plain data for its template."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, get_type_hints

from markupsafe import Markup

from spikelm.catalog.energy import PICOJOULE, Term, site_rate
from spikelm.config.schema import Config
from spikelm.errors import SpikeLMError
from spikelm.measure.workload import measured_terms
from spikelm.report.page.entries import Record, number, section
from spikelm.report.page.series import Curve, read_curves
from spikelm.report.page.svg import Line, line_chart
from spikelm.report.show_result import readable

SITE = re.compile(r"(.*?)\.?(\d+)\.([^.]+)$")
SAMPLES = 20  # of generated text; result.json has them all
TRACEBACK = 6000  # characters from its end


def details(record: Record) -> dict[str, Any]:
    """Every block of the page; one that a run does not have is empty."""
    result = record.result
    return {
        "scores": _scores(result),
        "measures": _measures(result),
        "curves": _curves(read_curves(record.directory / "metrics.csv")),
        "firing": _firing(section(result, "firing_rate")),
        "energy": energy_terms(result),
        "audit": _audit(section(result, "spike_driven")),
        "samples": [s for s in result.get("samples") or [] if isinstance(s, dict)][:SAMPLES],
        "notes": section(result, "metric_notes"),
        "needs": {role: result[role] for role in ("pretrained", "teacher") if isinstance(result.get(role), str)},
        "config": flatten(record.config),
        "about": _about(result),
        "traceback": _tail(record.directory / "traceback.txt"),
    }


def _scores(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    floor, teacher = section(result, "constant_predictor"), section(result, "teacher_metrics")
    return [
        {"name": readable(name), "value": value, "floor": floor.get(name), "teacher": teacher.get(name)}
        for name, value in section(result, "metrics").items()
    ]


def _measures(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Energy against the ANN, firing, size and cost: value, unit and what it is compared with."""
    found = []
    ours, ann, rate = (section(result, name) for name in ("energy_mj", "energy_ann_mj", "firing_rate"))
    spiking = number(rate.get("mean")) is not None
    for kind in ("fp32", "fp16"):
        if (value := number(ours.get(kind))) is not None:
            beside = number(ann.get(kind))
            against = f"{beside:.4f} mJ ANN, {beside / value:.1f}x" if spiking and beside and value else ""
            found.append({"name": f"energy {kind}, one inference", "value": f"{value:.4f} mJ", "against": against})
    if spiking:
        initial = [v for v in section(rate, "initial_per_site").values() if number(v) is not None]
        before = f"{fmean(initial):.1%} mean over sites before training" if initial else ""
        found.append({"name": "firing rate, weighted by MACs", "value": f"{rate['mean']:.1%}", "against": before})
    if bits := section(result, "bits"):
        both = f"{bits.get('weights')}, {bits.get('activations')}"
        found.append({"name": "bits of weights, activations", "value": both, "against": ""})
    if made := section(section(result, "energy_detail"), "generated"):
        lengths = " ".join(f"{made.get(f'mean_{side}', 0):.0f} tokens {did}," for side, did in READ)
        text = f"{made.get('ann_fp32', 0):.4f} mJ ANN; {lengths} {made.get('beams')} beams"
        found.append(
            {"name": "energy fp32, one generated text", "value": f"{made.get('fp32', 0):.4f} mJ", "against": text}
        )
    for key, name, form in COSTS:
        if (value := number(result.get(key))) is not None:
            found.append({"name": name, "value": form.format(value), "against": ""})
    return found


READ = (("source", "read"), ("target", "written"))
COSTS = (
    ("parameters", "parameters", "{:,.0f}"),
    ("steps", "steps", "{:,.0f}"),
    ("seconds", "seconds", "{:,.0f}"),
    ("peak_memory_mb", "peak memory", "{:,.0f} MB"),
)


def _curves(curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    """One chart a family: each loss, the learning rate, the dev scores; firing rates by kind of site.

    A single value is no curve: it is among the scores.
    """
    families: dict[str, list[tuple[str, Curve]]] = {}
    for name, curve in curves.items():
        first, _, rest = name.partition("/")
        if first == "firing" or curve.count < 2:
            continue
        alone = first == "train" or "loss" in rest
        families.setdefault(name if alone else f"{first} scores", []).append((rest or name, curve))
    order = sorted(
        families, key=lambda family: (family != "train/loss", "loss" not in family, family == "train/lr", family)
    )
    charts = []
    for family in order:
        shown = families[family][:6]
        logged, size = max(curve.count for _, curve in shown), max(curve.size for _, curve in shown)
        about = f"{logged:,} values" + (f", each point the mean of {size}" if size > 1 else "")
        chart = line_chart([Line(name, curve.steps, curve.values) for name, curve in shown], "step", "")
        charts.append({"name": family, "chart": chart, "about": about})
    if (firing := _site_curves(curves)) is not None:
        charts.append({"name": "firing rate by kind of site", "chart": firing, "about": "mean over layers"})
    return charts


def _site_curves(curves: Mapping[str, Curve]) -> Markup | None:
    kinds: dict[str, dict[float, list[float]]] = {}
    for name, curve in curves.items():
        if name.startswith("firing/") and curve.count > 1:
            at = kinds.setdefault(name.rpartition(".")[2], {})
            for step, value in zip(curve.steps, curve.values, strict=True):
                at.setdefault(step, []).append(value)
    if not kinds:
        return None
    means = {kind: sorted((step, fmean(values)) for step, values in at.items()) for kind, at in kinds.items()}
    lines = [Line(kind, [s for s, _ in found], [v for _, v in found]) for kind, found in list(means.items())[:6]]
    return line_chart(lines, "step", "")


def _firing(rate: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Grids of layers and kinds of site, one a stack (encoder, decoder): rate after training, and before."""
    after, before = section(rate, "per_site"), section(rate, "initial_per_site")
    grids: dict[str, dict[str, dict[str, Any]]] = {}
    for site, value in after.items():
        if (found := number(value)) is None:
            continue
        match = SITE.match(site)
        stack, layer, kind = match.groups() if match else ("other", "", site)
        cell = {"rate": found, "before": number(before.get(site)), "heat": min(10, max(0, round(10 * found)))}
        grids.setdefault(stack, {}).setdefault(layer, {})[kind] = cell
    return [
        {
            "stack": stack,
            "kinds": list(dict.fromkeys(kind for row in layers.values() for kind in row)),
            "layers": layers,
            "before": any(cell["before"] is not None for row in layers.values() for cell in row.values()),
        }
        for stack, layers in grids.items()
    ]


def energy_terms(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Energy by kind of matmul, summed over layers, if the terms add up to what the result says; else None."""
    ours = number(section(result, "energy_mj").get("fp32"))
    if ours is None:
        return None
    rates = section(section(result, "firing_rate"), "per_site")
    try:
        config = typed_config(section(result, "config"))
        terms = measured_terms(config, spiking=config.fires)
        lines = _by_name(terms, rates if config.fires else None, config.time_steps)
    except (SpikeLMError, ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None
    total = sum(line["mj"] for line in lines)
    if not lines or not math.isclose(total, ours, rel_tol=1e-6):
        return None
    return {"lines": [{**line, "share": line["mj"] / total if total else 0.0} for line in lines], "total": total}


def _by_name(terms: Sequence[Term], rates: Mapping[str, float] | None, T: int) -> list[dict[str, Any]]:
    """MACs, mean rate and mJ of each matmul over all layers; without rates it is an ANN, whose MACs multiply."""
    mac, ac = PICOJOULE["fp32"]
    found: dict[str, dict[str, Any]] = {}
    for term in terms:
        rate = site_rate(term.site, rates) if term.site is not None and rates is not None else None
        cost = mac if rate is None else ac * T * rate
        line = found.setdefault(term.name, {"name": term.name, "macs": 0, "mj": 0.0, "ann": 0.0, "rates": []})
        line["macs"] += term.macs
        line["mj"] += term.macs * cost * 1e-9
        line["ann"] += term.macs * mac * 1e-9
        line["rates"] += [] if rate is None else [rate]
    return [{**line, "rate": fmean(line["rates"]) if line["rates"] else None} for line in found.values()]


def typed_config(saved: Mapping[str, Any]) -> Config:
    """A saved config as the typed tree; keys of other versions are left out, missing ones have their default."""
    return _typed(Config, saved)


def _typed(kind: Any, saved: Mapping[str, Any]) -> Any:
    types = _types(kind)
    known = {f.name: saved[f.name] for f in fields(kind) if f.name in saved}
    return kind(
        **{k: _typed(types[k], v) if is_dataclass(types[k]) and isinstance(v, dict) else v for k, v in known.items()}
    )


@lru_cache(maxsize=64)
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _audit(verdict: Mapping[str, Any]) -> dict[str, Any]:
    lists = {key: [str(item) for item in verdict.get(key) or []] for key in ("real_valued", "silent")}
    return {**{key: verdict.get(key) for key in ("verdict", "decoding", "operations")}, **lists} if verdict else {}


def _about(result: Mapping[str, Any]) -> dict[str, str]:
    """Where the numbers come from: data, seed, code, libraries."""
    source = section(result, "source")
    rows = ", ".join(f"{split} {count:,}" for split, count in section(source, "rows").items() if number(count))
    versions = ", ".join(f"{name} {version}" for name, version in section(result, "versions").items())
    found = {
        "finished": result.get("finished_at"),
        "rows": rows,
        "hash of the data": source.get("content_hash"),
        "reported epoch": result.get("select"),
        "recipe": result.get("recipe"),
        "seed": result.get("seed"),
        "commit": result.get("git_commit"),
        "libraries": versions,
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys and their values."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            found |= flatten(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _tail(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-TRACEBACK:]
    except OSError:
        return ""
