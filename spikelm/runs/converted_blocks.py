"""A conversion block by block, as the terminal, the page and W&B show it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from spikelm.store.result import Result


@dataclass(frozen=True)
class ConvertedBlock:
    """A block's hidden state beside the plain model's, and what its neurons do on the mean; None: not known."""

    block: str  # of which stack, and its number
    cosine: float | None
    error: float | None  # |y - x| / |x|
    neurons: float | None  # the same of what its neurons give to what they read
    largest: float | None
    largest_at: str  # the site of the largest
    saturated: float | None  # share of the values that are too large for their neuron
    spikes: float | None  # of a value


def converted_blocks(result: Result) -> list[ConvertedBlock]:
    """One for each block of a conversion; none of any other run."""
    conversion = result.conversion
    blocks = []
    for block in conversion.blocks if conversion else []:
        sites = [site for site in conversion.sites if site.site.startswith(f"{block.name}.")] if conversion else []
        errors = {site.site: site.relative_error for site in sites if site.relative_error is not None}
        saturated = [site.saturated for site in sites if site.saturated is not None]
        rates = [result.firing_rate.per_site[site.site] for site in sites if site.site in result.firing_rate.per_site]
        largest = max(errors, key=lambda site: errors[site], default="")
        stack, _, index = block.name.rpartition(".")
        blocks.append(
            ConvertedBlock(
                block=f"{stack.partition('.')[0]} {index}",
                cosine=block.cosine,
                error=block.relative_error,
                neurons=fmean(errors.values()) if errors else None,
                largest=errors.get(largest),
                largest_at=largest.removeprefix(f"{block.name}."),
                saturated=fmean(saturated) if saturated else None,
                spikes=fmean(rates) if rates else None,
            )
        )
    return blocks


def block_rows(result: Result) -> list[dict[str, Any]]:
    """The same as rows of a table."""
    return [asdict(block) for block in converted_blocks(result)]
