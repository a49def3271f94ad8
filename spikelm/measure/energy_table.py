"""The energy of a backbone term by term, as a table on the console."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.measure.energy import (
    PICOJOULE,
    Precision,
    Term,
    ceiling_mj,
    encoder_terms,
    energy_mj,
    mean_rate,
    real_valued_terms,
    spiking_energy_mj,
)

_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")


def print_energy(
    layers: int,
    hidden: int,
    intermediate: int,
    length: int,
    T: int,
    rate: float | Mapping[str, float],
    console: Console,
) -> None:
    """Print MACs and mJ of every kind of term, ANN beside SNN; `rate` is one number or one per site."""
    terms = encoder_terms(layers, hidden, intermediate, length)
    title = f"Encoder matmuls: {layers} layers, hidden {hidden}, ffn {intermediate}, length {length} (mJ)"
    print_terms(title, terms, real_valued_terms(hidden), T, rate, console)


def print_terms(
    title: str, terms: list[Term], real: list[Term], T: int, rate: float | Mapping[str, float], console: Console
) -> None:
    """Print any model's terms; `real` are named below the table and not counted."""
    rates = rate if isinstance(rate, Mapping) else {term.site: float(rate) for term in terms if term.site}
    console.print(_table(terms, rates, T, title))
    console.print(
        f"{sum(term.macs for term in terms):,} MACs: ANN {energy_mj(terms):.2f} mJ, "
        f"SNN {spiking_energy_mj(terms, rates, T):.2f} mJ at T={T}, rate {mean_rate(terms, rates):.1%} (fp32)"
    )
    for precision in _PRECISIONS:
        mac, ac = PICOJOULE[precision]
        console.print(
            f"{precision}: {mac} pJ per MAC, {ac} pJ per AC; "
            f"ceiling (every neuron fires) {ceiling_mj(terms, 1, precision):.5g} mJ per time step"
        )
    listed = ", ".join(f"{term.name} {term.macs:,} MACs" for term in real)
    console.print(f"Real-valued and not counted: {listed}; embeddings, softmax, LayerNorm, GELU, membranes.")


def _table(terms: list[Term], rates: Mapping[str, float], T: int, title: str) -> Table:
    # Bare enough for a console of 80 columns.
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("matmul", no_wrap=True)
    table.add_column("spikes", no_wrap=True)
    for heading in ("MMAC", "share", "ANN\nfp32", "ANN\nfp16", "rate", f"T={T}\nfp32", f"T={T}\nfp16"):
        table.add_column(heading, justify="right", no_wrap=True)
    total = sum(term.macs for term in terms)
    groups: dict[str, list[Term]] = {}
    for term in terms:
        groups.setdefault(term.name, []).append(term)
    for name, group in groups.items():
        site = (group[0].site or "").rpartition(".")[2]
        table.add_row(name, site, *_numbers(group, rates, T, total))
    table.add_section()
    table.add_row("total", "", *_numbers(terms, rates, T, total), style="bold")
    return table


def _numbers(terms: list[Term], rates: Mapping[str, float], T: int, total: int) -> list[str]:
    macs = sum(term.macs for term in terms)
    ann = [f"{energy_mj(terms, precision):.3f}" for precision in _PRECISIONS]
    snn = [f"{spiking_energy_mj(terms, rates, T, precision):.3f}" for precision in _PRECISIONS]
    return [f"{macs / 1e6:,.1f}", f"{100 * macs / total:.3g}%", *ann, f"{mean_rate(terms, rates):.1%}", *snn]
