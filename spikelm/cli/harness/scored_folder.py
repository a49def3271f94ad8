"""The folder of a model that the harness is to score: found, looked at before anything is loaded, and its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikelm.cli.find_run import find_result, weights_of
from spikelm.config.paths import default_runs_dir
from spikelm.errors import CheckpointError, ConfigError, DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EXAMPLE = "--model_args run=RUN, the first digits of a run's id, or the folder of a model"


def model_folder(run: object, runs_dir: str | None = None) -> Path:
    """The folder with config.json and weights that `run` names: itself, or that of a finished run of a store."""
    if run in (None, ""):
        raise ConfigError("--model_args does not say which model to score", EXAMPLE)
    if not isinstance(run, str):
        # The harness turns 0012 into 12 and 1e23 into a float, which may be digits of another run.
        raise ConfigError(
            f"the harness read run={run} as a number", """put it into quotes: --model_args run="'0012'\""""
        )
    folder = Path(run).expanduser().absolute()
    if (folder / "config.json").is_file():
        return folder
    if folder.is_dir() and not (folder / "config.yaml").is_file():
        raise CheckpointError(f"{folder} holds neither a model, which has a config.json, nor a run", EXAMPLE)
    root = Path(runs_dir or default_runs_dir()).expanduser().absolute()
    if runs_dir and not root.is_dir():
        raise ConfigError(f"runs_dir={runs_dir} is not a folder", "runs_dir=DIR, the folder of a store")
    return weights_of(*find_result(str(folder) if folder.is_dir() else run, root))


def refuse_other_models(folder: Path) -> None:
    """Raise where config.json names a model that does not predict the next token."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    try:
        config = json.loads((folder / "config.json").read_text())
        name = config["architectures"][0].removeprefix("Spiking")
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} does not hold a saved model: {error}") from error
    if name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() or config.get("is_encoder_decoder"):
        raise ConfigError(
            f"{folder} holds a {name}, which gives no text a likelihood",
            "a language model: a run of task=lm/..., or a folder with a GPT-2 or a model of Llama's family",
        )


def scored_tokenizer(folder: Path, model: Path, **settings: Any) -> PreTrainedTokenizerBase:
    """The tokenizer in `folder` for the model in the folder `model`, in transformers' form.

    A lone tokenizer.json does not say which token begins a text: then it is the one that our own perplexities begin
    with.
    """
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    from spikelm.data.tokens.running_text_tokenizer import end_of_text, first_token

    file = folder / "tokenizer.json"
    if not file.is_file():
        # Without this file, transformers may give a tokenizer that knows no words.
        raise DataError(
            f"{folder} has no tokenizer.json",
            "put it there, or name the folder that has it: --model_args tokenizer=DIR",
        )
    if (folder / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(folder, **settings)
    bare = Tokenizer.from_file(str(file))
    bare.no_truncation()
    bare.no_padding()
    begin, end = bare.id_to_token(first_token(bare, model)), end_of_text(bare)
    return PreTrainedTokenizerFast(tokenizer_object=bare, bos_token=begin, eos_token=end, **settings)
