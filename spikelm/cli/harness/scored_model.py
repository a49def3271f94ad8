"""`--model spikelm` of lm-evaluation-harness: its own model of Hugging Face's, with another way to load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from lm_eval.models.utils_hf import get_dtype

from spikelm.cli.harness.scored_folder import EXAMPLE, model_folder, refuse_other_models, scored_tokenizer
from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError
from spikelm.spiking import load_pretrained

#: arguments that mean for our models what they mean for the harness's own
PASSED = (
    *("device", "dtype", "batch_size", "max_batch_size", "max_length", "truncation", "logits_cache"),
    *("add_bos_token", "prefix_token_id", "softmax_dtype", "mixed_precision_dtype"),
    *("think_end_token", "enable_thinking", "chat_template_args"),
)
OWN = ("run", "runs_dir", "tokenizer")
PROBED = 8  # tokens of a row


@register_model("spikelm")
class ScoredModel(HFLM):  # type: ignore[misc]
    """A decoder of a run, or of a folder, plain or spiking; windows, sums, batches and stopping are the harness's.

    The harness pads rows on the right to score them, and on the left to continue them. Neither changes a score: a
    spiking decoder passes values between tokens in its attention alone, and `refuse_what_looks_elsewhere` tries that.

    Args:
        run: A run directory, the first digits of a run id, or a folder with config.json and weights.
        runs_dir: The store in which the run is looked for; your own without it.
        tokenizer: A folder with a tokenizer.json, where that of the model has none.
        **options: Those of PASSED, which the harness's documents explain.
    """

    def __init__(
        self, run: object = "", runs_dir: str | None = None, tokenizer: str | None = None, **options: Any
    ) -> None:
        for name in options:
            if name not in PASSED:
                raise ConfigError(f"--model_args {name}=... is not known{nearest(name, (*OWN, *PASSED))}", EXAMPLE)
        folder = model_folder(run, runs_dir)
        refuse_other_models(folder)
        device = str(options.pop("device", None) or "cuda")
        device = device if device == "cpu" or torch.cuda.is_available() else "cpu"
        if device == "cpu" and str(options.get("batch_size", 1)).startswith("auto"):
            raise ConfigError("--batch_size auto tries what a GPU can hold, and this is a CPU", "--batch_size 8")
        super().__init__(
            pretrained=str(folder),
            backend="causal",
            tokenizer=str(Path(tokenizer or folder).expanduser().absolute()),
            device=device,
            **options,
        )
        refuse_what_looks_elsewhere(self.model, folder)

    def _create_tokenizer(
        self, pretrained: Any, tokenizer: Any, add_bos_token: bool | None = None, **options: Any
    ) -> None:
        """HFLM asks for it while it is made."""
        settings = {} if add_bos_token is None else {"add_bos_token": add_bos_token}
        self.tokenizer = scored_tokenizer(Path(tokenizer), Path(pretrained), **settings)

    def _create_model(self, pretrained: str, dtype: Any = "auto", **options: Any) -> None:
        """HFLM asks for it while it is made, and puts it on its device afterwards."""
        self._model = load_pretrained(pretrained, dtype=get_dtype(dtype))


@torch.no_grad()
def refuse_what_looks_elsewhere(model: Any, folder: Path) -> None:
    """Raise where what a model says of a token depends on the tokens behind it, or on other rows.

    Two batches that share half a row and nothing else have to agree on that half. No likelihood could be told
    otherwise: neurons with one scale for a whole batch (`neuron=twn`) see the answer, and the padding.
    """
    half = PROBED // 2
    batches = torch.randint(model.config.vocab_size, (2, 2, PROBED), generator=torch.Generator().manual_seed(0))
    batches[1, 0, :half] = batches[0, 0, :half]
    first, second = (model(batch.to(model.device)).logits[0, :half].float() for batch in batches)
    if not torch.allclose(first, second, rtol=0, atol=1e-3 * float(first.abs().max())):
        raise ConfigError(
            f"what the model in {folder} says of a token depends on the tokens behind it, or on other rows",
            "neurons with a scale of each token or a fixed one, such as neuron=bispike or neuron=residual",
        )
