"""How much of the micro-world can be had without learning language: word counts, first sentences, a dictionary.

python -m benchmarks.microworld_baselines    prints the tables of docs/internals/microworld.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from spikelm.data.microworld import SEQ2SEQ_ENTITIES, SEQ2SEQ_TASKS, TASKS, glue, seq2seq
from spikelm.data.microworld.bilingual import PLACES
from spikelm.data.microworld.clauses import TIMES
from spikelm.data.microworld.romanian import ADJECTIVES, COUNTS, NOUNS, OWNERS
from spikelm.data.microworld.romanian_verbs import HE, VERBS
from spikelm.measure.text_metrics import ROUGE, entity_accuracy, text_metrics

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
SENTENCES = {"xsum": 1, "cnn_dm": 3}  # as many as a summary has
#: English words that no list of the micro-world has; most articles and pronouns have no word in Romanian
SMALL_WORDS = {
    "the": "",
    "a": "",
    "an": "",
    "to": "",
    "do": "",
    "does": "",
    "did": "",
    "there": "",
    "for": "",
    "i": "",
    "you": "",
    "we": "",
    "he": "el",
    "she": "ea",
    "they": "ei",
    "him": "îl",
    "her": "ei",
    "them": "îi",
    "not": "nu",
    "will": "va",
    "and": "și",
    "who": "care",
    "that": "acel",
    "this": "acest",
    "these": "acești",
    "those": "acei",
    "is": "este",
    "are": "sunt",
    "was": "era",
    "were": "erau",
    "be": "fi",
    "many": "mulți",
    "like": "place",
    "likes": "place",
    "me": "mă",
    "us": "ne",
}


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


def word_count_scores(task: str, seed: int = 0) -> dict[str, float]:
    """The scores of every linear model of one GLUE task on its (matched) validation split."""
    splits = glue(task, seed)
    train, dev = splits["train"], splits.get("validation") or splits["validation_matched"]
    metric, columns = METRICS.get(task, "accuracy"), COLUMNS[task]
    scores = {"constant": constant(train, dev, metric), "both": bag_of_words(train, dev, columns, metric)}
    if len(columns) == 2:
        scores["joined"] = bag_of_words(train, dev, columns, metric, joint=True)
        scores["first"] = one_side(train, dev, columns[0], metric)
        scores["second"] = one_side(train, dev, columns[1], metric)
    return scores


def lead(document: str, sentences: int) -> str:
    """The first sentences of a document, one per line."""
    return "\n".join(re.split(r"(?<=[.!?]) ", document)[:sentences])


def last(document: str, sentences: int) -> str:
    """The last sentences, one per line."""
    return "\n".join(re.split(r"(?<=[.!?]) ", document)[-sentences:])


def dictionary() -> dict[str, str]:
    """English word or phrase, in small letters, to the first form that a dictionary gives."""
    words = dict(SMALL_WORDS)
    for noun in NOUNS.values():
        words |= {noun.en: noun.one, noun.en_plural: noun.many}
    for name, forms in ADJECTIVES.items():
        words.setdefault(name, forms[0])
    words |= {name: forms[0] for name, forms in (*OWNERS.items(), *COUNTS.items())}
    for verb in VERBS.values():
        words |= {verb.en: verb.present[HE], verb.third: verb.present[HE], verb.past: f"a {verb.participle}"}
        words |= {verb.ing: verb.present[HE]} if verb.ing else {}
    words |= {en: ro for times in TIMES.values() for en, ro in times}
    return words | {en: ro for en, (ro, _) in PLACES.items()}


def word_for_word(sentence: str, words: dict[str, str]) -> str:
    """Each word, or phrase of up to three, by the dictionary, in the English order."""
    end, tokens = sentence[-1], sentence[:-1].replace("'s", "").replace("'", "").split()
    translated: list[str] = []
    while tokens:
        for size in (3, 2, 1):
            phrase = " ".join(tokens[:size]).lower()
            if len(tokens) >= size and (phrase in words or size == 1):
                translated.append(words.get(phrase, tokens[0]))
                tokens = tokens[size:]
                break
    text = " ".join(filter(None, translated))
    return f"{text[:1].upper()}{text[1:]}{end}"


def guesses(task: str, rows: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    """The texts of each baseline of a task."""
    if task in SENTENCES:
        documents = [row["document"] for row in rows]
        ways = {"lead": lead, "last": last}
        return {name: [way(text, SENTENCES[task]) for text in documents] for name, way in ways.items()}
    words = dictionary()
    return {
        "copy": [row["en"] for row in rows],
        "word for word": [word_for_word(row["en"], words) for row in rows],
    }


def text_scores(task: str, seed: int = 0) -> dict[str, dict[str, float]]:
    """The scores of every baseline of a summarisation or translation on its validation split."""
    splits = seq2seq(task, seed, {"train": 400, "test": 0})
    rows = splits["validation"]
    target = list(rows[0])[1]
    references = [row[target] for row in rows]
    metrics = ROUGE if task in SENTENCES else ("bleu", "chrf")
    # A target of the training rows, whatever the source: what a model has that knows how targets look.
    texts_by_baseline = {**guesses(task, rows), "another's": [row[target] for row in splits["train"]]}
    return {
        name: text_metrics((*metrics, "exact_match"), texts, references)[0]
        | entity_accuracy(texts, references, SEQ2SEQ_ENTITIES[task])[0]
        for name, texts in texts_by_baseline.items()
    }


def main() -> None:
    """Print the baselines of the eight GLUE tasks and of the three tasks of text pairs."""
    names = ("constant", "both", "joined", "first", "second")
    table = Table("task", "metric", *names, title="linear models on word counts (validation, x100)")
    for task in TASKS:
        scores = word_count_scores(task)
        cells = (f"{scores[name]:.1f}" if name in scores else "-" for name in names)
        table.add_row(task, METRICS.get(task, "accuracy"), *cells)
    Console().print(table)
    for task in SEQ2SEQ_TASKS:
        for name, metrics in text_scores(task).items():
            print(f"{task:<11} {name:<14}", *(f"{metric} {value:.1f}" for metric, value in metrics.items()), sep="  ")


if __name__ == "__main__":
    main()
