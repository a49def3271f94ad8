"""The energy of a backbone term by term, as a table on the console."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.energy import (
    PICOJOULE,
    Precision,
    Term,
    ceiling_mj,
    encoder_terms,
    energy_mj,
    lm_head_terms,
    mean_rate,
    real_valued_terms,
    seq2seq_terms,
    spiking_energy_mj,
)
from spikelm.catalog.estimators import estimates
from spikelm.catalog.expected_counts import expected_counts
from spikelm.catalog.kinds import kind_of, spiking_terms
from spikelm.catalog.quantities import millijoules, significant, token_energy
from spikelm.cli.energy.card_table import print_estimates
from spikelm.config.settings.backbone import BackboneConfig

_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")
_OPERATORS = "softmax, LayerNorm, GELU"
_LLAMA_OPERATORS = "rotary positions, softmax, norms, the gate's activation and product"


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
    title = f"matmuls: {layers} layers, hidden {hidden}, ffn {intermediate}, length {length} (mJ)"
    print_terms(title, terms, real_valued_terms(hidden), T, rate, console)


def print_seq2seq_energy(
    size: BackboneConfig,
    source: int,
    target: int,
    beams: int,
    T: int,
    rate: float | Mapping[str, float],
    console: Console,
) -> None:
    """The same for BART and mBART: `source` tokens read, `target` tokens decoded with `beams`."""
    decoder = size.decoder_layers or size.layers
    terms = seq2seq_terms(size.layers, decoder, size.hidden, size.intermediate, source, target, beams)
    lengths = f"{source} to {target} tokens" + (f", {beams} beams" if beams > 1 else "")
    title = f"matmuls: {size.layers} + {decoder} layers, hidden {size.hidden}, {lengths} (mJ)"
    print_terms(title, terms, lm_head_terms(size.hidden, size.vocab, target, beams), T, rate, console)


def print_decoder_energy(
    size: BackboneConfig, length: int, T: int, rate: float | Mapping[str, float], console: Console
) -> None:
    """The same for GPT-2, Llama and those built like it, which read `length` tokens one by one with a cache."""
    terms = spiking_terms(size, length)
    title = f"matmuls: {size.layers} layers, hidden {size.hidden}, ffn {size.intermediate}, {length} tokens (mJ)"
    head = lm_head_terms(size.hidden, size.vocab, length)
    between = _OPERATORS if size.kind == "gpt2" else _LLAMA_OPERATORS
    print_terms(title, terms, head, T, rate, console, "Decoder", between)
    rates = rate if isinstance(rate, Mapping) else {term.site: float(rate) for term in terms if term.site}
    console.print(
        f"One token of {length}: ANN {token_energy(energy_mj(terms) / length)}, "
        f"SNN {token_energy(spiking_energy_mj(terms, rates, T) / length)}; "
        f"LM head, real-valued, apart: {token_energy(energy_mj(head) / length)} (fp32)",
        soft_wrap=True,
    )


def print_terms(
    title: str,
    terms: list[Term],
    real: list[Term],
    T: int,
    rate: float | Mapping[str, float],
    console: Console,
    stack: str = "Encoder",
    operators: str = _OPERATORS,
) -> None:
    """Print any model's terms, a table for each stack; `real` and `operators` are named below and not counted."""
    rates = rate if isinstance(rate, Mapping) else {term.site: float(rate) for term in terms if term.site}
    decoder = [term for term in terms if (term.site or "").startswith("decoder.")]
    encoder = [term for term in terms if term not in decoder]
    console.print(_table(encoder, rates, T, f"{stack} {title}"))
    if decoder:
        console.print(_table(decoder, rates, T, f"Decoder {title}"))
    console.print(
        f"{sum(term.macs for term in terms):,} MACs: ANN {millijoules(energy_mj(terms))}, "
        f"SNN {millijoules(spiking_energy_mj(terms, rates, T))} at T={T}, rate {mean_rate(terms, rates):.1%} (fp32)"
    )
    for precision in _PRECISIONS:
        mac, ac = PICOJOULE[precision]
        console.print(
            f"{precision}: {mac} pJ per MAC, {ac} pJ per AC; "
            f"ceiling (every neuron fires) {millijoules(ceiling_mj(terms, 1, precision))} per time step"
        )
    listed = ", ".join(f"{term.name} {term.macs:,} MACs" for term in real)
    console.print(f"Real-valued and not counted: {listed}; embeddings, {operators}, membranes.")


def print_expected(size: BackboneConfig, length: int, T: int, rate: float, console: Console) -> None:
    """What the estimators of the energy card make of an encoder whose spikes all fire at one rate, independently."""
    terms = encoder_terms(size.layers, size.hidden, size.intermediate, length)
    rates = {str(term.site): rate for term in terms}
    parameters = kind_of(size).parameters
    number = parameters(size, False, 2) if parameters else 0
    plain = expected_counts(terms, None, size, length, parameters=number)
    print_estimates(estimates(plain), False, console, "the plain model, ")
    if rate <= 1:
        spiking = expected_counts(terms, rates, size, length, T, parameters=number)
        print_estimates(estimates(spiking), True, console, f"T={T}, spikes {{-a, 0, a}} at rate {rate:g}, ")


def print_operators(replaced: Mapping[str, str], console: Console) -> None:
    """Say that operators are not counted, whatever stands in their place: option by group, attention and norm."""
    places = {"attention": "the softmax", "norm": "the LayerNorms of the blocks"}
    instead = " and ".join(f"{name} in place of {places[group]}" for group, name in replaced.items())
    which = f", {instead} among them" if instead else ""
    console.print(f"Only matmuls are counted, and no operator between them{which}.", highlight=False)


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
        table.add_row(name.removeprefix("decoder "), site, *_numbers(group, rates, T, total))
    table.add_section()
    table.add_row("total", "", *_numbers(terms, rates, T, total), style="bold")
    return table


def _numbers(terms: list[Term], rates: Mapping[str, float], T: int, total: int) -> list[str]:
    macs = sum(term.macs for term in terms)
    ann = [_short(energy_mj(terms, precision)) for precision in _PRECISIONS]
    snn = [_short(spiking_energy_mj(terms, rates, T, precision)) for precision in _PRECISIONS]
    share, rate = 100 * macs / total, 100 * mean_rate(terms, rates)
    return [
        _short(macs / 1e6, 1),
        f"{share:.1f}%" if share < 100 else "100%",
        *ann,
        f"{rate:.1f}%" if rate < 100 else "100%",
        *snn,
    ]


def _short(number: float, digits: int = 3) -> str:
    """Few characters, to fit the columns: small numbers with three digits that count."""
    if number < 10 ** (2 - digits):
        return significant(number)
    return f"{number:,.{digits}f}" if number < 10 ** (5 - digits) else f"{number:,.{max(0, digits - 2)}f}"
