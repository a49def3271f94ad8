"""spikelm-generate RUN "text": a model goes on with a text, sums it up or translates it, as it was trained to."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikelm.catalog.quantities import counted, significant, token_energy
from spikelm.cli.find_run import FoundRun, find_result, weights_of
from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.cli.stores import add_runs_dir
from spikelm.config.paths import default_runs_dir
from spikelm.errors import CheckpointError, ConfigError, SpikeLMError
from spikelm.machine.signals import INTERRUPTED, Stopped

if TYPE_CHECKING:
    from spikelm.data.tokens.text_codec import TextCodec
    from spikelm.measure.generating import Decoding, Generated
    from spikelm.store.result import Result

GENERATE = Manual(
    "spikelm-generate",
    "let a model write: go on with a text, sum it up, translate it",
    "Loads the model of a finished run, or of a folder that save_pretrained wrote, spiking or plain, and prints what "
    "it writes, token by token. A decoder (Llama and those built like it, GPT-2) goes on with the text; a BART, "
    "mBART or Marian writes what it was trained to write of it. At the end a line on stderr says how many tokens were "
    "read and written, how fast, how many spikes a token took, and what energy the paper's rule gives for that, "
    "beside the plain model's: modelled, not metered.",
    {
        'spikelm-generate 3f2a "Once upon a time"': "the run whose id begins with 3f2a",
        "spikelm-generate FOLDER < prompt.txt": "a saved model, and a text from standard input",
        'spikelm-generate 3f2a "Ana is here." --beams 4 --json': "four beams, as one record of JSON",
        'spikelm-generate FOLDER "Who are you?" --chat --sample --seed 7': "a question in its tokenizer's template",
    },
    {0: "done", 2: f"{MISTAKE}; or no such run, one without weights, or a model that does not write", 130: "Ctrl-C"},
    ("docs/guide/generate.md",),
)
NEW_TOKENS = 128  # at most, where neither the command nor the task says it
GIVEN = 'spikelm-generate RUN "text", where spikelm-report runs lists the runs'
SAMPLING = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True)
class Writer:
    """What writes: the folder of its weights, the run that made it, and what its task says of writing."""

    folder: Path
    run: FoundRun | None = None
    result: Result | None = None

    @property
    def task(self) -> Any:
        """The task of a run with text pairs; None of all others."""
        return self.result.config.task if self.result and self.result.config.task.kind == "seq2seq" else None


def generate_main(argv: Sequence[str]) -> int:
    """Print what a model writes, and what it took."""
    args = _arguments(argv)
    text = _text(args.text)
    writer = _writer(args.run, args.runs_dir)
    if writer.run:
        print(writer.run, file=sys.stderr)
    model = _load(writer)
    codec = _codec(writer, model)
    ids = _read(args, text, codec)
    how = _decoding(args, writer, model, len(ids))
    try:
        made = _generate(args, model, codec, ids, how)
    except (KeyboardInterrupt, Stopped) as stopped:
        if isinstance(stopped, Stopped) and stopped.exit_code != INTERRUPTED:
            raise
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    if args.json:
        print(json.dumps(_record(writer, model, codec, text, ids, made, how), ensure_ascii=False))
    else:
        print(_summary(made), file=sys.stderr)
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = generate_parser()
    args = parser.parse_args(argv)
    for name, least in (("max_new_tokens", 1), ("beams", 1), ("top_k", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{flag} {value} is not valid; it is a whole number of at least {least}")
    if args.temperature is not None and not 0 < args.temperature < math.inf:
        raise ConfigError(f"--temperature {args.temperature:g} is not valid; it is a number above 0", "--temperature 1")
    if args.top_p is not None and not 0 < args.top_p <= 1:
        raise ConfigError(f"--top-p {args.top_p:g} is not valid; it is a share above 0, at most 1", "--top-p 0.9")
    given = [f"--{name.replace('_', '-')}" for name in SAMPLING if getattr(args, name) is not None]
    if given and not args.sample:
        raise ConfigError(f"{given[0]} has no effect: the likeliest token is taken each time", f"--sample {given[0]}")
    return args


def generate_parser() -> ManualParser:
    """The arguments and options of the command."""
    parser = ManualParser(GENERATE)
    what = "a run directory, the first digits of a run id, or the folder of a saved model"
    parser.add_argument("run", metavar="RUN", help=what)
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what is read; - or nothing reads standard input")
    of_task = "the task's for a run with text pairs"
    parser.add_argument(
        "--max-new-tokens", type=int, metavar="N", help=f"tokens written at most (default: {NEW_TOKENS}; {of_task})"
    )
    parser.add_argument(
        "--beams", type=int, metavar="N", help=f"texts searched side by side, not streamed (default: 1; {of_task})"
    )
    parser.add_argument("--sample", action="store_true", help="draw each token instead of taking the likeliest")
    own = "default: the model's own"
    parser.add_argument("--temperature", type=float, metavar="X", help=f"below 1 likely tokens gain ({own}, or 1)")
    parser.add_argument("--top-k", type=int, metavar="N", help=f"draw among the N likeliest tokens ({own}, or all)")
    parser.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help=f"draw among the likeliest that share P of the probability ({own}, or 1)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of --sample (default: 0)")
    parser.add_argument("--chat", action="store_true", help="put the text as a question, in the tokenizer's template")
    parser.add_argument("--json", action="store_true", help="one record on stdout at the end, and no line on stderr")
    add_runs_dir(parser)
    return parser


def _text(given: str | None) -> str:
    if given not in (None, "-"):
        return str(given)
    if given is None and sys.stdin.isatty():
        raise ConfigError("spikelm-generate needs TEXT", 'spikelm-generate RUN "a text", or a text through a pipe')
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input is no text: {error}", "a text in UTF-8") from error


def _writer(name: str, root: Path) -> Writer:
    """The folder of a saved model, or a finished run with its weights."""
    folder = Path(name)
    if (folder / "config.json").is_file():
        if (folder.parent / "result.json").is_file() and folder.name == "model":
            return _writer(str(folder.absolute().parent), root)  # the run knows its task and tokenizer
        return Writer(folder.absolute())
    if folder.is_dir() and not (folder / "status.json").is_file() and not (folder / "result.json").is_file():
        raise ConfigError(f"{name} is neither a run nor the folder of a model: it has no config.json", GIVEN)
    try:
        found, result = find_result(name, root)
        return Writer(weights_of(found, result), found, result)
    except SpikeLMError as error:  # whatever is missing: the command named a run that cannot write
        raise ConfigError(error.what, error.fix) from error


def _load(writer: Writer) -> Any:
    """The model in float32, on the GPU where there is one; what does not write is refused before weights are read."""
    from pickle import UnpicklingError

    import torch
    from safetensors import SafetensorError
    from transformers import GenerationMixin
    from transformers.utils import logging

    from spikelm.spiking import load_pretrained
    from spikelm.spiking.load import saved_class

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        cls = saved_class(writer.folder)
        if not issubclass(cls, GenerationMixin):
            raise ConfigError(
                f"{writer.folder} holds a {cls.__name__}, which does not write text",
                "a decoder (Llama and those built like it, GPT-2), a BART, an mBART or a Marian",
            )
        model: Any = load_pretrained(writer.folder, dtype=torch.float32)
    except (OSError, ValueError, RuntimeError, SafetensorError, UnpicklingError) as error:
        message = str(error).splitlines()[0]
        raise ConfigError(
            f"the model in {writer.folder} cannot be loaded: {message}", "fetch or make it again"
        ) from error
    except CheckpointError as error:
        raise ConfigError(error.what, error.fix) from error
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _codec(writer: Writer, model: Any) -> TextCodec:
    from spikelm.data.tokens.text_codec import codec_of_folder, codec_of_run

    if writer.result is None:
        return codec_of_folder(writer.folder, model.config.is_encoder_decoder)
    config = replace(writer.result.config, runs_dir=default_runs_dir())  # a tokenizer is kept in the user's own store
    return codec_of_run(config, writer.folder, Path(config.runs_dir) / ".cache")


def _read(args: argparse.Namespace, text: str, codec: TextCodec) -> list[int]:
    """The tokens that the model reads; of a text that is cut to the task's length, a warning says so."""
    if args.chat:
        if codec.chat is None:
            raise ConfigError("--chat: the tokenizer of this model has no chat template", "leave --chat out")
        return codec.chat(text)
    encoded = codec.encode(text)
    if encoded.whole > len(encoded.ids):
        told = f"warning: the text has {encoded.whole:,} tokens: it is cut to the task's {len(encoded.ids):,}"
        print(told, file=sys.stderr)
    return encoded.ids


def _decoding(args: argparse.Namespace, writer: Writer, model: Any, read: int) -> Decoding:
    """What the command asks for; else what the run's task says of writing, or the model's own beams."""
    from spikelm.measure.generated_text import generate_options
    from spikelm.measure.generating import Decoding

    task = writer.task if model.config.is_encoder_decoder else None
    further = generate_options(task.generate) if task else {}
    further.pop("do_sample", None)
    beams = further.pop("num_beams", None) or getattr(model.generation_config, "num_beams", None) or 1
    longest = further.pop("max_length", NEW_TOKENS + 1) - 1  # the token that a decoder starts with is given
    positions = getattr(model.config, "max_position_embeddings", None)
    room = longest if positions is None else positions - (0 if model.config.is_encoder_decoder else read)
    if positions is not None and (read > positions or room < 1):
        raise ConfigError(f"the text has {read:,} tokens, the model's places end at {positions:,}", "a shorter text")
    if args.max_new_tokens is not None and args.max_new_tokens > room:
        what = f"--max-new-tokens {args.max_new_tokens}: behind {counted(read, 'token')} the model has {room:,} places"
        raise ConfigError(what, f"--max-new-tokens {room}")
    return Decoding(
        most=args.max_new_tokens or max(1, min(longest, room)),
        beams=args.beams or beams,
        sample=args.sample,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed or 0,
        further=further,
    )


def _generate(args: argparse.Namespace, model: Any, codec: TextCodec, ids: Sequence[int], how: Decoding) -> Generated:
    """Write, onto stdout unless a record is wanted: token by token, or with beams at the end."""
    from spikelm.measure.generating import TextStream, generate

    def say(piece: str) -> None:
        print(piece, end="", flush=True)

    streams = how.beams == 1 and not args.json
    made = generate(
        model, ids, how, codec.end, TextStream(lambda new: codec.written(ids, new), say) if streams else None
    )
    if not args.json:
        print("" if streams else codec.written(ids, made.ids), flush=True)
    return made


def _summary(made: Generated) -> str:
    """The line at the end."""
    cost = made.cost
    parts = [
        f"{counted(made.tokens_read, 'token')} read, {len(made.ids):,} written, "
        f"{significant(made.tokens_per_second)} tokens/s"
    ]
    if cost.spikes is not None:
        parts.append(f"{cost.spikes:,.0f} spikes a token")
    if cost.energy_mj and cost.energy_plain_mj:
        ours, plain = cost.energy_mj["fp32"], cost.energy_plain_mj["fp32"]
        told = f"modelled energy a token, LM head apart: {token_energy(ours)}"
        if cost.spikes is None:
            told += " (all MACs)"
        else:
            told += f", plain model {token_energy(plain)}"
            told += f" ({significant(plain / ours, 2)}x)" if ours else ""
        parts.append(told)
    return "; ".join([*parts, *([cost.note] if cost.note else [])])


def _record(
    writer: Writer, model: Any, codec: TextCodec, text: str, ids: Sequence[int], made: Generated, how: Decoding
) -> dict[str, Any]:
    """What --json prints."""
    from spikelm.spiking.conversion import conversion_of

    conversion = conversion_of(model.config)
    return {
        "model": str(writer.folder),
        "run_id": writer.result.run_id if writer.result else None,
        "architecture": type(model).__name__,
        "time_steps": conversion.T if conversion else None,
        "text": text,
        "generated": codec.written(ids, made.ids),
        "tokens": {"read": made.tokens_read, "written": len(made.ids), "through_the_model": made.tokens_through},
        "seconds": made.seconds,
        "tokens_per_second": made.tokens_per_second,
        "spikes_per_token": made.cost.spikes,
        "firing_rate": made.cost.firing_rate,
        "modelled_energy_per_token_mj": {
            "this_model": made.cost.energy_mj,
            "plain_model": made.cost.energy_plain_mj,
            "lm_head_of_either": made.cost.lm_head_mj,
        },
        "note": made.cost.note or None,
        "decoding": asdict(how),
    }
