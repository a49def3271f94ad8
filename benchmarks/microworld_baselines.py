"""How much of a task a linear model sees in word counts alone: both texts, or one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spikelm.data.microworld import TASKS, glue

Row = dict[str, Any]

COLUMNS: dict[str, tuple[str, ...]] = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
}
METRICS: dict[str, str] = {"cola": "mcc", "mrpc": "f1", "qqp": "f1", "stsb": "spearman"}


def _scorer(metric: str) -> Callable[[Sequence[float], Sequence[float]], float]:
    from scipy.stats import spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    def spearman(truth: Sequence[float], guess: Sequence[float]) -> float:
        return float(spearmanr(truth, guess).statistic)

    scorers = {"accuracy": accuracy_score, "f1": f1_score, "mcc": matthews_corrcoef, "spearman": spearman}
    return scorers[metric]


def bag_of_words(
    train: Sequence[Row],
    dev: Sequence[Row],
    columns: Sequence[str],
    metric: str = "accuracy",
    joint: bool = False,
) -> float:
    """The score (x100) of a linear model on unigram and bigram counts, per column or of the joined text."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    groups = [tuple(columns)] if joint else [(column,) for column in columns]
    blocks = []
    for group in groups:
        counter = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", min_df=2)
        texts = [[" ".join(row[column] for column in group) for row in rows] for rows in (train, dev)]
        blocks.append((counter.fit_transform(texts[0]), counter.transform(texts[1])))
    seen, unseen = (hstack(parts).tocsr() for parts in zip(*blocks, strict=True))
    labels = [row["label"] for row in train]
    model = Ridge(alpha=10.0) if metric == "spearman" else LogisticRegression(C=0.3, max_iter=1000)
    guesses = model.fit(seen, labels).predict(unseen)
    return 100 * float(_scorer(metric)([row["label"] for row in dev], guesses))


def one_side(train: Sequence[Row], dev: Sequence[Row], column: str, metric: str = "accuracy") -> float:
    """The same linear model when it sees only one of the two texts."""
    return bag_of_words(train, dev, [column], metric)


def constant(train: Sequence[Row], dev: Sequence[Row], metric: str = "accuracy") -> float:
    """The score of always guessing the commonest label (for F1, the positive one); 0 for correlations."""
    if metric in ("mcc", "spearman"):
        return 0.0
    labels = [row["label"] for row in train]
    guess = 1 if metric == "f1" else max(sorted(set(labels)), key=labels.count)
    return 100 * float(_scorer(metric)([row["label"] for row in dev], [guess] * len(dev)))


def report(task: str, seed: int = 0) -> dict[str, float]:
    """Every baseline of one task on its (matched) validation split."""
    splits = glue(task, seed)
    train, dev = splits["train"], splits.get("validation") or splits["validation_matched"]
    metric, columns = METRICS.get(task, "accuracy"), COLUMNS[task]
    scores = {"constant": constant(train, dev, metric), "both": bag_of_words(train, dev, columns, metric)}
    if len(columns) == 2:
        scores["joined"] = bag_of_words(train, dev, columns, metric, joint=True)
        scores["first"] = one_side(train, dev, columns[0], metric)
        scores["second"] = one_side(train, dev, columns[1], metric)
    return scores


def main() -> None:
    """Print the baselines of the eight tasks."""
    from rich.console import Console
    from rich.table import Table

    names = ("constant", "both", "joined", "first", "second")
    table = Table("task", "metric", *names, title="linear models on word counts (validation, x100)")
    for task in TASKS:
        scores = report(task)
        cells = (f"{scores[name]:.1f}" if name in scores else "-" for name in names)
        table.add_row(task, METRICS.get(task, "accuracy"), *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
