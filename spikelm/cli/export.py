"""spikelm-export RUN: a trained spiking model as a folder that plain transformers code loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikelm.catalog.kinds import KINDS, LABELLED, LM
from spikelm.cli.find_run import find_result, weights_of
from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.cli.stores import OF_OTHERS, RUN, add_runs_dir
from spikelm.config.paths import default_runs_dir
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.report.query.output import is_own, report_folder
from spikelm.store.store import Run

if TYPE_CHECKING:
    from spikelm.store.result import Result

EXPORT = Manual(
    "spikelm-export",
    "a trained spiking model as a folder that plain transformers code loads",
    "Multiplies the neurons' amplitudes into the weights and writes safetensors, config.json and the tokenizer, which "
    "`import spikelm.export` and transformers' Auto classes load: classifiers, decoders and models of text pairs. The "
    "exported model is compared with the trained one on the run's task: scores, predictions, logits and texts.",
    {
        "spikelm-export 3f2a": "the run whose id begins with 3f2a, to exported-fp32 in its folder",
        "spikelm-export 3f2a --precision int8 --out FOLDER": "with linears of eight bits, elsewhere",
        "spikelm-export 3f2a --precision event": "the same linears, which add up the weights of what fired alone",
        "spikelm-export 3f2a --precision int8 --exact-layers 1": "its first layer as exact as it was trained",
    },
    {0: "done", 1: "the run is not finished, or its weights are gone", 2: f"{MISTAKE}; or no such run"},
    ("docs/guide/export.md",),
)
INPUTS = ["input_ids", "token_type_ids", "attention_mask"]


def export_main(argv: Sequence[str]) -> int:
    """Export a finished run, and compare the two models on its task."""
    parser = ManualParser(EXPORT)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--precision", choices=("fp32", "int8", "event"), default="fp32", help="of the linears")
    parser.add_argument(
        "--exact-layers", type=int, default=0, metavar="N",
        help="keep the linears of the first N layers in float32, where a rounding moves most spikes (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FOLDER", help=f"the folder to write (default: RUN/exported-PRECISION; {OF_OTHERS})"
    )
    add_runs_dir(parser)
    args = parser.parse_args([f"--{arg}" if arg.startswith("precision=") else arg for arg in argv])
    found, result = find_result(args.run, args.runs_dir)
    print(found)
    _refuse_config(result.config)
    weights = weights_of(found, result)
    out = Path(args.out).absolute() if args.out else _folder(found.run) / f"exported-{args.precision}"
    export_run(result, weights, out, args.precision, args.exact_layers)
    return 0


def _folder(run: Run) -> Path:
    """Where an export goes: into a run of the user's own store; a run of another store is only read."""
    if is_own(run.root):
        return run.directory
    return report_folder(run.root) / "exported" / run.directory.name


def _refuse_config(config: Config) -> None:
    """What the config alone shows, before anything heavy is loaded; convert.refuse looks at the model itself."""
    kind, task = config.backbone.kind, config.task
    facts = KINDS[kind]
    exported = (
        (facts.is_encoder and task.kind in LABELLED)
        or (facts.causal and task.kind == LM)
        or (facts.seq2seq and task.kind == "seq2seq")
    )
    if not exported:
        raise ConfigError(
            f"task={task.name} of backbone.kind={kind} cannot be exported",
            "task=glue/... with a BERT or RoBERTa, task=lm/... with a GPT-2 or Llama, task=sum/... or task=mt/... with "
            "a BART, mBART or Marian",
        )
    if not config.converted:
        raise ConfigError(
            f"neuron={config.neuron.name}: a plain model has no spikes to export",
            "transformers loads it as it is: RUN/model",
        )


def export_run(result: Result, weights: Path, out: Path, precision: str, exact_layers: int = 0) -> dict[str, Any]:
    """Write the exported model and export.json; the contents of the latter."""
    from rich.console import Console

    from spikelm.config.checks import check
    from spikelm.export.compare import check_merge, compare
    from spikelm.export.convert import export
    from spikelm.export.merged_model import auto_class
    from spikelm.export.run_data import run_data
    from spikelm.spiking import load_pretrained
    from spikelm.store.atomic import write_json
    from spikelm.training.fit import quiet_libraries

    quiet_libraries()
    config = replace(result.config, runs_dir=default_runs_dir())  # its rows are tokenised in the user's own store
    check(config)
    trained: Any = load_pretrained(weights).eval()
    if config.task.labels:
        trained.config.id2label = dict(enumerate(config.task.labels))
        trained.config.label2id = {name: index for index, name in enumerate(config.task.labels)}
    data = run_data(config, weights)
    sets = data.sets
    made = export(trained, precision, exact_layers)
    merged = check_merge(trained, next(iter(sets.values()))[-1], precision, exact_layers)
    made.save_pretrained(out)
    data.save_tokenizer(out)
    written = auto_class(made).from_pretrained(out)
    report = {
        "run_id": result.run_id,
        "task": result.task,
        "scale": result.scale,
        "source": result.source.name,
        "precision": precision,
        "exact_layers": exact_layers,
        "time_steps": config.time_steps,
        "double_precision_difference": merged,
        "recorded": result.metrics,
        "compared_on": data.about,
        **asdict(compare(config, sets, trained, written, data.texts)),
        "bytes": {"trained": _size(weights), "exported": _size(out)},
    }
    write_json(out / "export.json", report)
    _show(report, out, Console())
    return report


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _show(report: Mapping[str, Any], out: Path, console: Any) -> None:
    from rich.table import Table

    title = (
        f"{report['task']}, T={report['time_steps']}, {report['scale']}, {report['source']}: {report['compared_on']}"
    )
    table = Table(title=title)
    for column in ("metric", "trained", f"exported ({report['precision']})", "difference"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, before in report["trained"].items():
        after = report["exported"][name]
        table.add_row(name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}")
    console.print(table)
    if texts := report["texts"]:
        other = sum(text["trained"] != text["exported"] for text in texts)
        console.print(f"texts that differ: {other} of {len(texts)} (export.json has them)")
    console.print(
        f"predictions that differ: {report['other_predictions']} of {report['rows']}; largest difference of logits "
        f"{report['max_difference']:.1e} (largest logit {report['largest_logit']:.2g}); the merge in double precision: "
        f"{report['double_precision_difference']:.1e}",
        soft_wrap=True,
    )

    sizes = report["bytes"]
    console.print(f"weights: {sizes['trained']:,} bytes became {sizes['exported']:,} in {out}", soft_wrap=True)
