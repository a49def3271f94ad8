"""The head of a model card, which the hub reads: names, tags, and the scores of the exported model by split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from spikelm.catalog.checkpoint_files import on_hub
from spikelm.catalog.metric_names import METRICS
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.hub import task_repository
from spikelm.store.result import Result

#: what the hub calls our metrics
OF_HUB = {"matthews": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr", "rougeLsum": "rouge"}
OF_HUB |= dict.fromkeys(("rouge1", "rouge2", "rougeL"), "rouge")


def card_metadata(name: str, result: Result, report: Mapping[str, Any], license: str | None) -> ModelCardData:
    """All that the hub is told; what is not known is left out."""
    results = list(_eval_results(result, report))
    hub_data = hub_dataset(result)
    return ModelCardData(
        model_name=name,
        license=license,
        base_model=base_model(result),
        library_name="spikelm",
        pipeline_tag=hub_task(result.config.task),
        tags=_tags(result, report),
        datasets=[hub_data] if hub_data else None,
        metrics=list(dict.fromkeys(one.metric_type for one in results)) or None,
        eval_results=results or None,
    )


def _eval_results(result: Result, report: Mapping[str, Any]) -> Iterator[EvalResult]:
    """The scores of the exported model itself, by split."""
    task, source = result.config.task, result.source
    hub_data = hub_dataset(result)
    for split, metric, key in measured(task, report["exported"]):
        value = report["exported"][key]
        if value is None:
            continue
        yield EvalResult(
            task_type=hub_task(task),
            dataset_type=hub_data or f"spikelm-{source.name}",
            dataset_name=task.name if hub_data else f"{task.name}, {source.name} rows of spikelm",
            dataset_config=task_repository(task, result.config.source).config if hub_data else None,
            dataset_split=split,
            dataset_revision=source.commits.get(hub_data) if hub_data else None,
            dataset_args={
                "scale": result.scale,
                "source": source.name,
                "rows": source.rows.get(split),
                "measured_on": report["compared_on"],
            },
            metric_type=OF_HUB.get(metric, metric),
            metric_name=readable(metric),
            metric_value=round(value, 4),
            metric_args={"seed": result.seed},
        )


def measured(task: TaskConfig, scores: Mapping[str, float | None]) -> Iterator[tuple[str, str, str]]:
    """Split, metric and key of each score; a split's keys end with its suffix."""
    for split, suffix in task.splits.items():
        others = [other for other in task.splits.values() if other and other != suffix]
        for key in scores:
            if key.endswith(suffix) and not (suffix == "" and key.endswith(tuple(others))):
                yield split, key.removesuffix(suffix), key


def hub_task(task: TaskConfig) -> str:
    """What the hub calls a kind of task."""
    if task.kind == "seq2seq":
        return "translation" if task.name.startswith("mt/") else "summarization"
    return "text-generation" if task.kind == "lm" else "text-classification"


def hub_dataset(result: Result) -> str:
    """The dataset's name on the hub; empty where the rows were read from elsewhere."""
    config = result.config
    return task_repository(config.task, config.source).repo if result.source.name.startswith("hub") else ""


def base_model(result: Result) -> str | None:
    """The hub's name of the weights that it started from."""
    path = result.config.backbone.path or ""
    return path.partition("@")[0] if path and on_hub(path) and "/" in path else None


def _tags(result: Result, report: Mapping[str, Any]) -> list[str]:
    config = result.config
    tags = ["spikelm", "spiking-neural-network", config.backbone.kind, config.neuron.name, report["precision"]]
    return [*tags, f"scale-{result.scale}", f"source-{result.source.name}"]


def readable(metric: str) -> str:
    """A metric in words, with its unit."""
    known = METRICS.get(metric)
    title = known.title if known else metric.replace("_", " ")
    if metric in ("bleu", "chrf") or (known and known.lower):
        return title
    return f"{title} {'x 100' if metric in ('matthews', 'pearson', 'spearman') else 'in %'}"
