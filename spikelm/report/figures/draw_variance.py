"""Figure 3: a fixed threshold fires by the variance of its input, an elastic one does not (section 4.2)."""

from __future__ import annotations

import math

import numpy as np

from spikelm.report.appearance import look_of_preset
from spikelm.report.figures.figures import Drawing, PaperFigure, Runs
from spikelm.report.figures.style import GREY, INK, letters, new_figure, percent
from spikelm.report.query.selection import Results

SIGMAS = (0.3, 0.6, 1.0)  # of the densities
SAMPLES = 200_000


def gaussian_rate(sigma: np.ndarray, threshold: float) -> np.ndarray:
    """P(|x| > threshold) of N(0, sigma^2)."""
    return np.array([math.erfc(threshold / (s * math.sqrt(2))) for s in sigma])


def laplace_rate(sigma: np.ndarray, threshold: float) -> np.ndarray:
    """P(|x| > threshold) of a Laplace distribution with deviation sigma = b sqrt(2)."""
    return np.exp(-threshold * math.sqrt(2) / sigma)


def neuron_rates(sigmas: np.ndarray, elastic: bool) -> list[float]:
    """Firing rates of the neuron itself on normal samples of each deviation, T=1."""
    import torch

    from spikelm.neurons.bispike import BiSpike

    samples = torch.randn(1, SAMPLES, generator=torch.Generator().manual_seed(0))
    rates = []
    for sigma in sigmas:
        neuron = BiSpike(T=1, k=2.0, elastic=elastic)
        rates.append(float((neuron.train()(samples * float(sigma)) != 0).double().mean()))
    return rates


def variance(figure: PaperFigure, runs: Runs, results: Results) -> Drawing:
    """Densities with the thresholds that fire, and rates over the variance: lines closed form, points our neurons."""
    half = 0.5  # of a spike of height 1, where rounding fires
    drawn, (left, right) = new_figure(figure.title.capitalize() + " (no run is needed)", 1, 2, 3.0)
    x = np.linspace(-2, 2, 801)
    for sigma, line, shade in zip(SIGMAS, ("-", "--", "-."), (0.5, 0.32, 0.16), strict=True):
        density = np.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
        rate = gaussian_rate(np.array([sigma]), half)[0]
        left.plot(x, density, color=INK, linestyle=line, linewidth=1.1, label=f"σ² = {sigma**2:.2f}: {rate:.0%} fire")
        left.fill_between(x, density, where=np.abs(x) > half, color=GREY, alpha=shade, linewidth=0)
    for edge in (-half, half):
        left.axvline(edge, ymax=0.7, color=GREY, linewidth=0.8)
    left.set_xlabel("membrane potential")
    left.set_ylabel("density")
    left.legend(loc="upper left")
    left.set_xlim(-2, 2)
    left.set_ylim(0, 2.0)
    fine = np.linspace(0.05, 1.5, 200)
    points = np.sqrt(np.array([0.1, 0.4, 0.7, 1.0, 1.4, 1.8, 2.2]))
    fixed, elastic = neuron_rates(points, False), neuron_rates(points, True)
    constant = gaussian_rate(np.array([1.0]), math.sqrt(2 / math.pi))[0]  # alpha/2 at k=2 (lemma 1)
    plain, own = look_of_preset("spikelm_fixed"), look_of_preset("spikelm_t4")
    right.plot(fine**2, gaussian_rate(fine, half), color=plain.colour)
    right.plot(fine**2, laplace_rate(fine, half), color=plain.colour, linestyle=":", label="fixed, Laplace input")
    right.plot([0, fine[-1] ** 2], [constant, constant], color=own.colour, linestyle="-.")
    right.plot(points**2, fixed, plain.marker, color=plain.colour, markersize=6)
    right.plot(points**2, elastic, own.marker, color=own.colour, markersize=5)
    for look, line, name in ((plain, "-", "fixed, normal input"), (own, "-.", "elastic, k = 2, normal input")):
        right.plot([], [], color=look.colour, linestyle=line, marker=look.marker, markersize=5, label=name)
    right.set_xlabel("variance of the input")
    right.set_ylabel("firing rate")
    percent(right, 1.0)
    right.set_xlim(0, 2.3)
    right.legend(loc="lower right")
    letters([left, right], ["thresholds ±½ of spikes ±1", "points: our neurons; lines: closed form"])
    data = {"variance": (points**2).tolist(), "fixed": fixed, "elastic": elastic, "elastic_closed_form": constant}
    return Drawing(
        drawn, data, f"Points: our neurons on {SAMPLES:,} normal samples; lines: closed form. No run is needed."
    )
