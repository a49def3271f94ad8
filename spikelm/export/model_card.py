"""README.md of an exported folder: a model card that the hub reads, made of the run's result and of export.json.

Every figure is one that a command measured or modelled, and the card says which; what is not known is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from huggingface_hub import ModelCard

from spikelm import __version__
from spikelm.catalog.estimators import WHOSE
from spikelm.catalog.kinds import kind_of
from spikelm.catalog.quantities import bits_text, millijoules, rate_text, significant, token_energy
from spikelm.config.redact import publishable_command, without_folders
from spikelm.config.settings.task import TaskConfig
from spikelm.export.card_metadata import base_model, card_metadata, hub_dataset, hub_task, measured, readable
from spikelm.machine.environment import environment
from spikelm.store.atomic import write_atomic
from spikelm.store.checksums import file_sums
from spikelm.store.result import Result, number_text
from spikelm.store.written_files import WrittenFiles

CARD = "README.md"
#: kind of task -> the class that loads its models
CLASSES = {
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "lm": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
}
SOURCES = {
    "embedded": "The rows are the micro-world that spikelm generates, in the form of {task}. **These scores say "
    "nothing about the published data of that name** and cannot be compared with scores on it.",
    "local": "The rows were read from files of whoever made this model, as {task}. Nothing here shows that they are "
    "the published data of that name.",
    "hub": "The rows are those of {where} on the hub.",
}


@dataclass(frozen=True)
class Commands:
    """The commands that make the run and the export again."""

    run: str
    export: str


Cells = Sequence[str]


def write_card(
    written: WrittenFiles,
    result: Result,
    report: Mapping[str, Any],
    commands: Commands,
    repository: str = "",
    license: str | None = None,
) -> ModelCard:
    """Write the card into an exported folder; `report` is its export.json, `repository` its name on the hub."""
    name = repository.rpartition("/")[2] or _name(result, report)
    sections = {
        "": _introduction(result, report),
        "Model": _model(result, report),
        "Scores": _scores(result, report),
        "Energy": _energy(result),
        "What is spike-driven": _audit(result),
        "Firing rates": _firing(result),
        "How to use it": _use_onnx(result.config.task, repository)
        if report["format"] == "onnx"
        else _use(result.config.task, repository),
        "How it was made": _made(result, commands),
        "Files": _files(written),
        "Limitations": _limitations(result, report),
    }
    body = "\n\n".join(
        f"## {title}\n\n{text}" if title else f"# {name}\n\n{text}" for title, text in sections.items() if text
    )
    metadata = card_metadata(name, result, report, license)
    card = ModelCard(f"---\n{metadata.to_yaml()}\n---\n\n{without_folders(body)}\n")
    write_atomic(written.folder / CARD, str(card))
    return card


def _name(result: Result, report: Mapping[str, Any]) -> str:
    parts = [result.task, result.config.neuron.name, f"T{report['time_steps']}", result.scale, report["precision"]]
    return "spikelm-" + re.sub(r"[^\w.]+", "-", "-".join(parts))


def _introduction(result: Result, report: Mapping[str, Any]) -> str:
    config, task = result.config, result.config.task
    ends = " from {:g} to {:g}".format(*task.score_range) if task.score_range else ""
    does = {
        "classification": f"labels a row as one of: {', '.join(task.labels)}",
        "regression": f"gives a row a score{ends}",
        "lm": "goes on with a text",
        "seq2seq": "translates a text" if hub_task(task) == "translation" else "sums up a text",
    }[task.kind]
    weights = {"fp32": "float32 weights", "int8": "weights of 8 bits"}
    stored = weights.get(report["precision"], "weights of 8 bits that are added up only where something fired")
    first = (
        f"A spiking {kind_of(config.backbone).title} for {task.name}, which {does}. Trained with spikelm and exported "
        f"for inference with {stored}."
    )
    return f"{first}\n\n> {_what_scores_are(result)}"


def _what_scores_are(result: Result) -> str:
    """Embedded, local and hub's rows, and small and paper-sized models, are never one thing."""
    where = hub_dataset(result)
    commit = result.source.commits.get(where)
    name, _, tuned = result.source.name.partition("-")
    told = SOURCES[name].format(task=result.task, where=f"{where}{f' at {commit}' if commit else ''}")
    told += " The scores are on a tenth of the training rows, held out to tune on." if tuned else ""
    scale = "the sizes of the paper" if result.scale == "paper" else "smaller than the paper's models"
    cut = [
        f"{split} has {result.source.rows[split]:,} of {rows:,} rows" for split, rows in result.source.available.items()
    ]
    parts = f" Not all rows were used: {', '.join(cut)}." if cut else ""
    return f"Scale {result.scale} ({scale}), source {result.source.name}, seed {result.seed}. {told}{parts}"


def _model(result: Result, report: Mapping[str, Any]) -> str:
    config = result.config
    size, rate = config.backbone, result.firing_rate
    rows = [
        ("architecture", kind_of(size).title),
        ("layers, width, heads, feed-forward", f"{size.layers}, {size.hidden}, {size.heads}, {size.intermediate}"),
        ("parameters of the trained model", f"{result.parameters:,}"),
        ("neuron", config.neuron.name),
        *((name, _plain(value)) for name, value in config.neuron.arguments.items()),
        ("time steps T", str(report["time_steps"])),
        ("virtual steps inside a time step, at most", "" if rate.virtual_steps is None else str(rate.virtual_steps)),
        ("bits of weights, as trained", bits_text(result.bits.weights)),
        ("bits of activations, as trained", bits_text(result.bits.activations)),
        ("precision of the exported linears", report["precision"]),
        ("LM head", "int8, which rounds what it reads as well" if report.get("int8_head") else ""),
        ("first layers kept in float32", str(report["exact_layers"]) if report.get("exact_layers") else ""),
        ("bytes of weights, trained and exported", "{trained:,}, {exported:,}".format(**report["bytes"])),
        ("started from", _started(result)),
    ]
    return _table(("", ""), [row for row in rows if row[1]])


def _started(result: Result) -> str:
    base = base_model(result)
    parts = [f"public weights {base}"] if base else []
    if result.weights is not None and not base:
        parts.append("given weights")
    if result.weights is not None:
        parts.append(f"sha256 {result.weights.sha256}")
    parts += [f"{role} run {id}" for role, id in result.needs.items()]
    return ", ".join(parts)


def _scores(result: Result, report: Mapping[str, Any]) -> str:
    """The exported model beside the trained one, measured by spikelm-export on the same rows."""
    exported, trained, constant = report["exported"], report["trained"], result.constant_predictor
    rows = [
        (
            split,
            f"{result.source.rows[split]:,}" if split in result.source.rows else "",
            readable(metric),
            number_text(exported[key]),
            number_text(trained.get(key)),
            number_text(constant[key]) if key in constant else "",
        )
        for split, metric, key in measured(result.config.task, exported)
    ]
    heading = ("split", "rows", "metric", "this model", "before the export", "constant answer")
    parts = [
        f"Both were measured on {report['compared_on']} of a split.",
        f"One seed ({result.seed}): how far another would be off was not measured here.",
    ]
    if "other_predictions" in report and result.config.task.kind == "classification":
        parts.append(
            f"{report['other_predictions']} of {report['rows']:,} predictions differ from the trained model's."
        )
    if result.select != "last":
        parts.append(f"The epoch was chosen by its score on these rows (select={result.select}), which flatters it.")
    if result.teacher_metrics:
        scored = ", ".join(f"{readable(name)} {number_text(value)}" for name, value in result.teacher_metrics.items())
        parts.append(f"Its teacher scores: {scored}.")
    return f"{_table(heading, rows, 'lrlrrr')}\n\n{' '.join(parts)}"


def _energy(result: Result) -> str:
    """Modelled, by the paper's rule for a given length, and by each estimator from what was counted."""
    parts = ["**Modelled, not measured**, and for the trained model: no meter was read."]
    ann = dict(result.energy_ann_mj.items())
    rows = [
        (f"the paper's rule, {precision}", millijoules(energy), millijoules(other) if (other := ann[precision]) else "")
        for precision, energy in result.energy_mj.items()
        if energy is not None
    ]
    if rows:
        what = (
            "By the rule of SpikeLM (section 5.1), 0.9 pJ for an addition and 4.6 pJ for a multiplication in fp32, for "
            "the matrix products of the blocks alone, at the firing rates below"
        )
        length = result.config.measure.length
        parts += [f"{what}; an input of {length} tokens:", _table(("rule", "this model", "plain model"), rows, "lrr")]
    if (token := result.energy_token) and token.fp32 is not None:
        told = f"A token costs {token_energy(token.fp32)} (plain model {token_energy(token.ann_fp32)})"
        parts.append(f"{told}, the LM head apart ({token_energy(token.lm_head_fp32)}).")
    if card := result.energy_card:
        lines = [
            (line.estimator, line.arithmetic, *(significant(value) for value in (line.network, line.plain, line.twin)))
            for line in card.modelled
        ]
        heading = ("estimator", "arithmetic", "this model", "plain model", "quantised twin")
        parts += [
            f"Of what was counted while {card.rows} rows ran, each as long as it is, in mJ a row:",
            _table(heading, lines, "llrrr"),
            "The twin is the plain model with as many levels as the spikes add up to.",
            _list(f"{name}: {WHOSE[name]}" for name in dict.fromkeys(line.estimator for line in card.modelled)),
        ]
    return "\n\n".join(parts)


def _audit(result: Result) -> str:
    verdict = result.spike_driven
    extent = {"fully": "All", "partly": "Some", "none": "None"}[verdict.verdict]
    parts = [
        f"{extent} of the matrix products inside the blocks of the trained model read spikes (verdict "
        f"*{verdict.verdict}*: {verdict.operations}), as an audit of a real forward pass saw."
    ]
    if verdict.decoding is not None:
        parts.append(f"While texts are generated from the cache, the verdict is *{verdict.decoding}*.")
    real = [f"matrix products of {_any_layer(verdict.real_valued)}"] if verdict.real_valued else []
    for use in verdict.operators or []:
        if use.arithmetic != "shifts and additions":
            where = "in the blocks" if use.part == "encoder" else "outside"
            real.append(f"{use.name} {where}: {use.arithmetic} ({use.does})")
    if real:
        parts.append("What stays real-valued:\n\n" + _list(dict.fromkeys(real)))
    if verdict.silent:
        parts.append(f"Modules whose spikes never fired: {_any_layer(verdict.silent)}.")
    return "\n\n".join(parts)


def _firing(result: Result) -> str:
    rate = result.firing_rate
    if rate.mean is None:
        return ""
    what = "Spikes a value" if rate.unfolds else "Shares of values that fire"
    mean = f"{rate_text(rate.mean, rate.unfolds)} weighted by the products that read them"
    over = rate.mean_over_sites
    sites = [(site, rate_text(value, rate.unfolds)) for site, value in rate.per_site.items()]
    parts = [f"{what}, of the trained model on the run's own samples: {mean}"]
    parts[0] += f", {rate_text(over, rate.unfolds)} as a mean over sites." if over is not None else "."
    details = f"<details><summary>by site</summary>\n\n{_table(('site', 'rate'), sites, 'lr')}\n\n</details>"
    return "\n\n".join([*parts, details])


def _use(task: TaskConfig, repository: str) -> str:
    place = repository or "."
    cls = CLASSES[task.kind]
    lines = [
        "import spikelm.export  # makes the classes known to transformers",
        f"from transformers import {cls}, AutoTokenizer",
        "",
        f'folder = "{place}"{"" if repository else "  # where this card is"}',
        f"model = {cls}.from_pretrained(folder)",
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
    ]
    if task.kind in ("classification", "regression"):
        texts = ", ".join(f'"{column} goes here"' for column in task.columns)
        lines.append(f'logits = model(**tokenizer({texts}, truncation=True, return_tensors="pt")).logits')
        said = "float(logits)" if task.kind == "regression" else "model.config.id2label[int(logits.argmax())]"
        lines.append(f"print({said})")
    else:
        lines.append('written = model.generate(**tokenizer("A text", return_tensors="pt"), max_new_tokens=32)')
        lines.append("print(tokenizer.decode(written[0], skip_special_tokens=True))")
    code = "```python\n" + "\n".join(lines) + "\n```"
    needs = f"It needs the Python packages spikelm ({__version__}) and transformers."
    if task.kind not in ("classification", "regression"):
        return f"{needs}\n\n{code}"
    files = f"A whole file of rows (columns {', '.join(task.columns)}), of a folder that was downloaded:"
    return f"{needs}\n\n{code}\n\n{files}\n\n```bash\nspikelm-predict FOLDER rows.jsonl --out answers.jsonl\n```"


def _use_onnx(task: TaskConfig, repository: str) -> str:
    texts = ", ".join(f'["{column} goes here"]' for column in task.columns)
    lines = [
        "import onnxruntime",
        "from transformers import AutoTokenizer",
        "",
        'folder = "."  # where this card is',
        'session = onnxruntime.InferenceSession(f"{folder}/model.onnx")',
        f'tokenizer = AutoTokenizer.from_pretrained("{repository or "."}")',
        f'rows = tokenizer({texts}, truncation=True, return_tensors="np")',
        "(logits,) = session.run(None, dict(rows))",
    ]
    code = "```python\n" + "\n".join(lines) + "\n```"
    return f"It needs the Python packages onnxruntime and transformers, and nothing of spikelm.\n\n{code}"


def _made(result: Result, commands: Commands) -> str:
    versions = {**result.versions}
    told = ", ".join(f"{library} {version}" for library, version in versions.items())
    here = environment().versions
    other = [f"{name} {version}" for name, version in here.items() if versions.get(name, version) != version]
    rows = ", ".join(f"{split} {count:,}" for split, count in result.source.rows.items())
    facts = [
        f"run {result.run_id}, {result.system}, scale {result.scale}, seed {result.seed}, {result.steps:,} steps, "
        f"{result.finished_at[:10]}",
        f"rows: {rows} (sha256 of the rows {result.source.content_hash})",
        f"trained with {told}" + (f"; commit {result.git_commit} of spikelm" if result.git_commit else ""),
        *([f"exported with {', '.join(other)}"] if other else []),
    ]
    given = [command for command in (commands.run, commands.export) if command]
    lines = [publishable_command(command) for command in given]
    block = "```bash\n" + "\n".join(lines) + "\n```"
    left_out = list(map(shlex.split, lines)) != list(map(shlex.split, given))
    return f"{_list(facts)}\n\n{block}" + ("\n\nNames in capitals stand for folders." if left_out else "")


def _files(written: WrittenFiles) -> str:
    sums = file_sums(written.folder, [path for path in written.paths() if path.name != CARD])
    return _table(("file", "sha256"), [(name, f"`{digest}`") for name, digest in sums.items()])


def _limitations(result: Result, report: Mapping[str, Any]) -> str:
    task = result.config.task
    lines = [
        f"It was trained for {result.task} alone; texts unlike the rows that it was trained on were not tried.",
        "Biases of the text and of the weights that it started from were not examined.",
        "Fewer operations are no shorter time by themselves: that depends on how the model is computed.",
    ]
    if report["precision"] != "fp32":
        lines.append("Spikes jump: where weights are rounded, single outputs move far even where the score stays.")
    if task.kind in ("classification", "regression"):
        length = result.config.finetune.max_length
        lines.append(f"Rows longer than {length} tokens are cut.")
    if result.scale in ("smoke", "mini"):
        lines.append(f"A model of scale {result.scale} is a toy to look at; it is of no use for work.")
    if task.kind == "classification":
        lines.append("Its probabilities are a softmax of the logits and were not calibrated.")
    return _list(lines)


# --- Markdown ---


def _any_layer(modules: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(re.sub(r"\.\d+\b", ".*", module) for module in modules))


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(heading: Cells, rows: Iterable[Cells], align: str = "") -> str:
    """A table of Markdown; `align` has an l or r for each column."""
    marks = {"l": "---", "r": "---:"}
    second = [marks[side] for side in align or "l" * len(heading)]
    lines = [heading, second, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
