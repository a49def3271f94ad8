"""One result as a table a person can read."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

NAMES = {
    "accuracy": "accuracy, %",
    "f1": "F1, %",
    "matthews": "Matthews correlation x 100",
    "pearson": "Pearson correlation x 100",
    "spearman": "Spearman correlation x 100",
    "mlm_accuracy": "masked word accuracy, %",
    "nsp_accuracy": "next sentence accuracy, %",
    **{f"rouge{kind}": f"ROUGE-{kind}, F1 %" for kind in ("1", "2", "L", "Lsum")},
    "bleu": "BLEU (sacreBLEU)",
    "chrf": "chrF (sacreBLEU)",
}
SHOWN = 2  # samples of generated text at the end of a run; spikelm-report run shows all
CUT = 400  # characters of an article


def show_result(result: dict[str, Any], console: Console, samples: int = SHOWN) -> None:
    """Score against the constant predictor, energy against the ANN, firing rate, audit, where it is."""
    title = f"{result['task']} · {result['system']} · scale {result['scale']}, source {result['source']['name']}"
    table = Table(title=title, title_justify="left")
    table.add_column("measure")
    table.add_column("this run", justify="right")
    table.add_column("compared with", justify="right")
    floor = result.get("constant_predictor", {})
    for name, value in result["metrics"].items():
        beside = {"constant predictor": floor, "teacher": result.get("teacher_metrics") or {}}
        others = [f"{scores[name]:.2f} {what}" for what, scores in beside.items() if name in scores]
        table.add_row(readable(name), f"{value:.2f}", ", ".join(others))
    energy, ann = result["energy_mj"], result["energy_ann_mj"]
    if bits := result.get("bits"):
        table.add_row("bits of weights, activations", f"{bits['weights']}, {bits['activations']}", "")
    for kind in ("fp32", "fp16"):
        if energy[kind] is None:
            continue
        spiking = result["firing_rate"]["mean"] is not None
        against = f"{ann[kind]:.4f} mJ ANN, {ann[kind] / max(energy[kind], 1e-12):.1f}x" if spiking else ""
        table.add_row(f"energy {kind}, one inference", f"{energy[kind]:.4f} mJ", against)
    rate = result["firing_rate"]
    if rate["mean"] is not None:
        initial = rate.get("initial_per_site") or {}
        before = f"{sum(initial.values()) / len(initial):.1%} site mean before training" if initial else ""
        sites = rate["per_site"].values()
        table.add_row("firing rate, mean over sites", f"{sum(sites) / len(sites):.1%}", before)
        table.add_row("firing rate, weighted by MACs", f"{rate['mean']:.1%}", "")
    verdict = result["spike_driven"]
    if detail := result.get("energy_detail"):
        made = detail["generated"]
        lengths = f"{made['mean_source']:.0f} tokens read, {made['mean_target']:.0f} written, {made['beams']} beams"
        table.add_row("energy fp32, one generated text", f"{made['fp32']:.4f} mJ", f"{made['ann_fp32']:.4f} mJ ANN")
        table.add_row("", "", lengths)
        table.add_row("LM head fp32, real-valued, apart", f"{detail['lm_head_fp32']:.4f} mJ", "")
    if "decoding" in verdict:
        table.add_row("spike-driven, generating from the cache", verdict["decoding"], "")
    what = "encoder and decoder" if result.get("energy_detail") else "encoder"
    table.add_row(f"spike-driven {what}", verdict["verdict"], f"real-valued: {_short(verdict['real_valued'])}")
    table.add_row("parameters", f"{result['parameters']:,}", "")
    table.add_row("seconds, peak memory", f"{result['seconds']:.0f} s", f"{result['peak_memory_mb']:.0f} MB")
    console.print(table)
    for name, note in (result.get("metric_notes") or {}).items():
        console.print(f"  {name}: {note}", highlight=False, markup=False, soft_wrap=True)
    for sample in result.get("samples", [])[:samples]:
        console.print()
        for what in ("source", "reference", "generated"):
            text = sample[what] if len(sample[what]) <= CUT else f"{sample[what][:CUT]}…"
            console.print(f"  {what:<10} {text}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"in {result['directory']}", soft_wrap=True, highlight=False)


def readable(name: str) -> str:
    """A metric in words."""
    for suffix, words in (("_mm", ", mismatched"), ("_test", ", test")):
        if name.endswith(suffix):
            return readable(name.removesuffix(suffix)) + words
    return NAMES.get(name, name.replace("_", " "))


def _short(modules: list[str]) -> str:
    names = list(
        dict.fromkeys(
            module.split(".encoder.")[0] + ".encoder" if ".encoder." in module else module for module in modules
        )
    )
    return ", ".join(names) if names else "nothing"
