"""spikelm-export RUN: a trained classifier as a folder that plain transformers code loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikelm.catalog.kinds import KINDS, LABELLED
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
    "a trained spiking classifier as a folder that plain transformers code loads",
    "Multiplies the neurons' amplitudes into the weights and writes safetensors, config.json and the tokenizer, which "
    "`import spikelm.export` and AutoModelForSequenceClassification load. The exported model is compared with the "
    "trained one on the run's dev set: scores, predictions and logits.",
    {
        "spikelm-export 3f2a": "the run whose id begins with 3f2a, to exported-fp32 in its folder",
        "spikelm-export 3f2a --precision int8 --out FOLDER": "with linears of eight bits, elsewhere",
        "spikelm-export 3f2a --precision event": "the same linears, which add up the weights of what fired alone",
        "spikelm-export 3f2a --precision int8 --exact-layers 1": "its first layer as exact as it was trained",
        "spikelm-export 3f2a --format onnx": "model.onnx for onnxruntime and others, to exported-onnx-fp32",
    },
    {0: "done", 1: "the run is not finished, or its weights are gone", 2: f"{MISTAKE}; or no such run"},
    ("docs/guide/export.md",),
)
INPUTS = ["input_ids", "token_type_ids", "attention_mask"]


def export_main(argv: Sequence[str]) -> int:
    """Export a finished run, and compare the two models on its dev set."""
    parser = ManualParser(EXPORT)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--precision", choices=("fp32", "int8", "event"), default="fp32", help="of the linears")
    parser.add_argument(
        "--exact-layers", type=int, default=0, metavar="N",
        help="keep the linears of the first N layers in float32, where a rounding moves most spikes (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("torch", "onnx"), default="torch", help="what reads it: transformers, or an ONNX runtime"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help=f"the folder to write (default: RUN/exported-PRECISION or RUN/exported-onnx-PRECISION; {OF_OTHERS})",
    )
    add_runs_dir(parser)
    args = parser.parse_args([f"--{arg}" if arg.startswith(("precision=", "format=")) else arg for arg in argv])
    onnx = args.format == "onnx"
    if onnx:
        _refuse_onnx(args.precision)
    found, result = find_result(args.run, args.runs_dir)
    print(found)
    _refuse_config(result.config)
    weights = weights_of(found, result)
    out = (
        Path(args.out).absolute()
        if args.out
        else _folder(found.run) / f"exported-{'onnx-' if onnx else ''}{args.precision}"
    )
    export_run(result, weights, out, args.precision, args.exact_layers, onnx)
    return 0


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


def _refuse_config(config: Config) -> None:
    """What the config alone shows, before anything heavy is loaded; convert.refuse looks at the model itself."""
    kind = config.backbone.kind
    if not KINDS[kind].is_encoder or config.task.kind not in LABELLED:
        raise ConfigError(
            f"task={config.task.name} of backbone.kind={kind} cannot be exported",
            "a run of task=glue/... with a BERT or an encoder built like it",
        )
    if not config.converted:
        raise ConfigError(
            f"neuron={config.neuron.name}: a plain model has no spikes to export",
            "transformers loads it as it is: RUN/model",
        )


def export_run(
    result: Result, weights: Path, out: Path, precision: str, exact_layers: int = 0, onnx: bool = False
) -> dict[str, Any]:
    """Write the exported model and export.json; the contents of the latter."""
    from rich.console import Console
    from transformers import AutoModelForSequenceClassification

    from spikelm.config.checks import check
    from spikelm.data.tokens.tokenizer import load_tokenizer
    from spikelm.data.tokens.wordpiece import fast_tokenizer
    from spikelm.export.compare import check_merge, compare, dev_sets
    from spikelm.export.convert import export
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
    tokenizer = load_tokenizer(config.source, config.backbone, Path(config.runs_dir) / ".cache")
    sets = dict(dev_sets(config, tokenizer))
    made = export(trained, precision, exact_layers)
    merged = check_merge(trained, next(iter(sets.values()))[-1])
    more: dict[str, Any] = {"format": "torch"}
    if onnx:
        from spikelm.export.onnx import OnnxClassifier, largest_number, onnx_file, save_onnx

        graph = save_onnx(made, largest_number(trained), next(iter(sets.values())), out)
        written: Any = OnnxClassifier(onnx_file(out))
        more = {"format": "onnx", "onnx": asdict(graph), "torch_export": asdict(compare(config, sets, made, written))}
    else:
        made.save_pretrained(out)
        written = AutoModelForSequenceClassification.from_pretrained(out)
    fast_tokenizer(tokenizer, config.finetune.max_length).save_pretrained(out)
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
        **asdict(compare(config, sets, trained, written)),
        **more,
        "bytes": {"trained": _size(weights), "exported": _size(out)},
    }
    write_json(out / "export.json", report)
    _show(report, out, Console())
    return report


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for suffix in ("safetensors", "onnx") for path in folder.glob(f"*.{suffix}"))


def _show(report: Mapping[str, Any], out: Path, console: Any) -> None:
    from rich.table import Table

    title = f"{report['task']}, T={report['time_steps']}, {report['scale']}, {report['source']}: {report['rows']} rows"
    table = Table(title=title)
    for column in ("metric", "trained", f"exported ({report['precision']})", "difference"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, before in report["trained"].items():
        after = report["exported"][name]
        table.add_row(name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}")
    console.print(table)
    console.print(
        f"predictions that differ: {report['other_predictions']} of {report['rows']}; largest difference of logits "
        f"{report['max_difference']:.1e} (largest logit {report['largest_logit']:.2g}); the merge in double precision: "
        f"{report['double_precision_difference']:.1e}",
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
