"""Whether what a language model says of a token depends on that token and those before it alone."""

from __future__ import annotations

from typing import Any

import torch

from spikelm.errors import ConfigError

PROBED = 8  # tokens of a row


@torch.no_grad()
def refuse_what_looks_elsewhere(model: Any, name: str) -> None:
    """Raise where what a model says of a token depends on the tokens behind it, or on other rows.

    Two batches that share half a row and nothing else have to agree on that half. No likelihood could be told
    otherwise: neurons with one scale for a whole batch (`neuron=twn`) see the answer, and the padding.
    """
    half, training = PROBED // 2, model.training
    device = next(model.parameters()).device
    batches = torch.randint(model.config.vocab_size, (2, 2, PROBED), generator=torch.Generator().manual_seed(0))
    batches[1, 0, :half] = batches[0, 0, :half]
    model.eval()
    first, second = (model(input_ids=batch.to(device)).logits[0, :half].float() for batch in batches)
    model.train(training)
    if not torch.allclose(first, second, rtol=0, atol=1e-3 * float(first.abs().max())):
        raise ConfigError(
            f"what {name} says of a token depends on the tokens behind it, or on other rows",
            "neurons with a scale of each token or a fixed one, such as neuron=bispike or neuron=residual",
        )
