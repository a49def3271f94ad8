"""spikelm-export RUN: a trained spiking model as a folder that plain transformers code loads, with its model card."""

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
from spikelm.store.export_record import RECORD, recorded_task
from spikelm.store.store import Run
from spikelm.store.written_files import WrittenFiles

if TYPE_CHECKING:
    from spikelm.store.result import Result

EXPORT = Manual(
    "spikelm-export",
    "a trained spiking model as a folder that plain transformers code loads",
    "Multiplies the neurons' amplitudes into the weights and writes safetensors, config.json and the tokenizer, which "
    "`import spikelm.export` and transformers' Auto classes load: classifiers, decoders and models of text pairs. The "
    "exported model is compared with the trained one on the run's task: scores, predictions, logits and texts. "
    "README.md is its model card.\n\n"
    "--push OWNER/NAME uploads the folder to the Hugging Face hub, where HF_TOKEN or a login (hf auth login) gives a "
    "token; it is asked for before anything is computed, and neither shown nor kept.",
    {
        "spikelm-export 3f2a": "the run whose id begins with 3f2a, to exported-fp32 in its folder",
        "spikelm-export 3f2a --precision int8 --out FOLDER": "with linears of eight bits, elsewhere",
        "spikelm-export 3f2a --precision event": "the same linears, which add up the weights of what fired alone",
        "spikelm-export 3f2a --precision int8 --exact-layers 1": "its first layer as exact as it was trained",
        "spikelm-export 3f2a --precision event --int8-head": "a decoder whose LM head is in int8, too",
        "spikelm-export 3f2a --format onnx": "model.onnx for onnxruntime and others, to exported-onnx-fp32",
        "spikelm-export 3f2a --push me/my-model --private": "to exported-fp32, and to a repository that only you see",
    },
    {
        0: "done",
        1: "the run is not finished, its weights are gone, or the hub refused the upload",
        2: f"{MISTAKE}; or no such run, or no token to push with",
    },
    ("docs/guide/export.md",),
)


def export_main(argv: Sequence[str]) -> int:
    """Export a finished run, compare the two models on its task, and upload the folder where that is asked for."""
    args = export_parser().parse_args(
        [f"--{arg}" if arg.startswith(("precision=", "format=")) else arg for arg in argv]
    )
    onnx = args.format == "onnx"
    if args.private and not args.push:
        raise ConfigError("--private has no effect without --push", "--push OWNER/NAME --private")
    if args.push:
        from spikelm.cli.push import check_push

        check_push(args.push)
    if onnx:
        _refuse_onnx(args.precision)
    found, result = find_result(args.run, args.runs_dir)
    print(found)
    _refuse_config(result.config)
    if args.int8_head:
        _refuse_head(result.config, args.precision)
    weights = weights_of(found, result)
    name = f"exported-{'onnx-' if onnx else ''}{args.precision}"
    written = WrittenFiles(Path(args.out).absolute() if args.out else _folder(found.run) / name)
    export_run(
        result, weights, written, args.precision, args.exact_layers, args.push or "", args.license, onnx, args.int8_head
    )
    if args.push:
        from spikelm.cli.push import push

        print(f"uploaded to {push(written, args.push, args.private)}")
    return 0


def export_parser() -> ManualParser:
    """The arguments and options of the command."""
    parser = ManualParser(EXPORT)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--precision", choices=("fp32", "int8", "event"), default="fp32", help="of the linears")
    parser.add_argument(
        "--exact-layers", type=int, default=0, metavar="N",
        help="keep the linears of the first N layers in float32, where a rounding moves most spikes (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--int8-head",
        action="store_true",
        help="the LM head in int8, too: smaller and quicker, but what it reads is rounded as well",
    )
    parser.add_argument(
        "--format", choices=("torch", "onnx"), default="torch", help="what reads it: transformers, or an ONNX runtime"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help=f"the folder to write (default: RUN/exported-PRECISION or RUN/exported-onnx-PRECISION; {OF_OTHERS})",
    )
    parser.add_argument("--license", metavar="ID", help="of the model card, as the hub calls it: apache-2.0, mit")
    parser.add_argument("--push", metavar="OWNER/NAME", help="upload the folder to this repository of the hub")
    parser.add_argument("--private", action="store_true", help="of --push: a repository that only its owner sees")
    add_runs_dir(parser)
    return parser


def _folder(run: Run) -> Path:
    """Where an export goes: into a run of the user's own store; a run of another store is only read."""
    if is_own(run.root):
        return run.directory
    return report_folder(run.root) / "exported" / run.directory.name


def _refuse_onnx(precision: str) -> None:
    """What ONNX cannot do, before anything heavy is loaded."""
    if precision == "event":
        raise ConfigError(
            "format=onnx has no precision=event: no operator of ONNX adds up the weights of what fired alone",
            "precision=int8, whose digits are the same",
        )
    from spikelm.export.onnx import need_packages

    need_packages()


def _refuse_head(config: Config, precision: str) -> None:
    """An int8 head where there is none, or where nothing else is in int8."""
    if config.task.kind in LABELLED:
        raise ConfigError(f"--int8-head: {config.task.name} trains a classifier, which has no LM head", "leave it out")
    if precision == "fp32":
        raise ConfigError("--int8-head goes with linears of int8", "precision=int8 or precision=event")


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


def export_run(
    result: Result,
    weights: Path,
    written: WrittenFiles,
    precision: str,
    exact_layers: int = 0,
    repository: str = "",
    license: str | None = None,
    onnx: bool = False,
    int8_head: bool = False,
) -> dict[str, Any]:
    """Write the exported model, export.json and the model card; the contents of export.json."""
    from rich.console import Console

    from spikelm.config.checks import check
    from spikelm.export.compare import check_merge, compare
    from spikelm.export.convert import export
    from spikelm.export.merged_model import auto_class
    from spikelm.export.model_card import Commands, write_card
    from spikelm.export.run_data import run_data
    from spikelm.report.query.rerun import rerun_command
    from spikelm.spiking import load_pretrained
    from spikelm.store.atomic import write_json
    from spikelm.training.fit import quiet_libraries

    quiet_libraries()
    out = written.folder
    config = replace(result.config, runs_dir=default_runs_dir())  # its rows are tokenised in the user's own store
    check(config)
    trained: Any = load_pretrained(weights).eval()
    if config.task.labels:
        trained.config.id2label = dict(enumerate(config.task.labels))
        trained.config.label2id = {name: index for index, name in enumerate(config.task.labels)}
    elif config.task.kind == "regression":
        trained.config.problem_type = "regression"  # or a pipeline takes the score for the logit of a probability
    data = run_data(config, weights)
    sets = data.sets
    made = export(trained, precision, exact_layers, int8_head)
    merged = check_merge(trained, next(iter(sets.values()))[-1], precision, exact_layers)
    more: dict[str, Any] = {"format": "torch"}
    if onnx:
        from spikelm.export.onnx import OnnxClassifier, largest_number, onnx_file, save_onnx

        graph = save_onnx(made, largest_number(trained), next(iter(sets.values())), out)
        loaded: Any = OnnxClassifier(onnx_file(out))
        more = {"format": "onnx", "onnx": asdict(graph), "torch_export": asdict(compare(config, sets, made, loaded))}
    else:
        made.save_pretrained(out)
        loaded = auto_class(made).from_pretrained(out)
    if int8_head:
        with_own = export(trained, precision, exact_layers)
        more["head"] = asdict(compare(config, sets, with_own, loaded, data.texts))
    data.save_tokenizer(out)
    report = {
        "run_id": result.run_id,
        "task": result.task,
        "scale": result.scale,
        "source": result.source.name,
        "precision": precision,
        "exact_layers": exact_layers,
        "int8_head": int8_head,
        "time_steps": config.time_steps,
        "double_precision_difference": merged,
        "recorded": result.metrics,
        "compared_on": data.about,
        **asdict(compare(config, sets, trained, loaded, data.texts)),
        **more,
        "bytes": {"trained": _size(weights), "exported": _size(out)},
        "reads": recorded_task(config.task),
    }
    write_json(out / RECORD, report)
    commands = Commands(rerun_command(result.config), _command(result.run_id, precision, exact_layers, onnx, int8_head))
    write_card(written, result, report, commands, repository, license)
    _show(report, out, Console())
    return report


def _command(run_id: str, precision: str, exact_layers: int, onnx: bool, int8_head: bool) -> str:
    """The command that makes the same export again, wherever it is written to."""
    exact = f" --exact-layers {exact_layers}" if exact_layers else ""
    head = " --int8-head" if int8_head else ""
    return f"spikelm-export {run_id}{' --format onnx' if onnx else ''} --precision {precision}{exact}{head}"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for suffix in ("safetensors", "onnx") for path in folder.glob(f"*.{suffix}"))


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
    if head := report.get("head"):
        scores = ", ".join(
            f"{name} {head['trained'][name]:.2f} to {after:.2f}" for name, after in head["exported"].items()
        )
        other = sum(text["trained"] != text["exported"] for text in head["texts"])
        console.print(
            f"of this the int8 head alone: {scores}; {head['other_predictions']} of {head['rows']} predictions and "
            f"{other} of {len(head['texts'])} texts differ from those with the head in float32; largest difference of "
            f"logits {head['max_difference']:.1e}",
            soft_wrap=True,
        )
    if onnx := report.get("onnx"):
        torch, rounding = report["torch_export"], onnx["rounding"]
        operators = ", ".join(f"{count} {name}" for name, count in onnx["operators"].items())
        console.print(
            f"ONNX of opset {onnx['opset']}: {operators}\n"
            f"its graph and the exported model in double precision: {onnx['double_precision_difference']:.1e}; "
            f"onnxruntime {onnx['onnxruntime']} and torch in float32: {torch['other_predictions']} of {torch['rows']} "
            f"predictions differ, largest difference of logits {torch['max_difference']:.1e}; of {rounding['rows']} "
            f"rows {rounding['moved_runtime']} are far from double precision in onnxruntime, "
            f"{rounding['moved_torch']} in torch",
            soft_wrap=True,
        )

    sizes = report["bytes"]
    console.print(f"weights: {sizes['trained']:,} bytes became {sizes['exported']:,} in {out}", soft_wrap=True)
