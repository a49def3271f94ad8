"""Scores of generated texts: ROUGE as DQ-BART's scripts take it, BLEU and chrF by sacreBLEU; all in percent.

ROUGE and BLEU reward a text for the words that every text of its kind has. Exact match and entity accuracy say whether
the text is about the right people and places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version

from spikelm.errors import ConfigError, DataError

ROUGE: tuple[str, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum")
Scores = dict[str, float]
Notes = dict[str, str]  # how a score was computed, for the record


def text_metrics(names: Sequence[str], predictions: Sequence[str], references: Sequence[str]) -> tuple[Scores, Notes]:
    """Scores by name, with how each was computed; an empty prediction scores 0."""
    if unknown := [name for name in names if name not in TEXT_METRICS]:
        raise ConfigError(f"metric {unknown[0]!r} does not score texts", f"choose among: {', '.join(TEXT_METRICS)}")
    if len(predictions) != len(references) or not references:
        raise DataError(f"{len(predictions)} predictions cannot be scored against {len(references)} references")
    scores: Scores = {}
    notes: Notes = {}
    for score in dict.fromkeys(TEXT_METRICS[name] for name in names):  # each function once, for all of its names
        own = [name for name in names if TEXT_METRICS[name] is score]
        more, how = score(own, list(predictions), list(references))
        scores, notes = scores | more, notes | how
    if empty := sum(not text.strip() for text in predictions):
        notes["empty"] = f"{empty} of {len(predictions)} predictions are empty"
    return {name: scores[name] for name in names}, notes


def _rouge(names: list[str], predictions: list[str], references: list[str]) -> tuple[Scores, Notes]:
    """Mean F1, words stemmed. rougeL takes a text as one sentence; rougeLsum takes each line as one."""
    from rouge_score.rouge_scorer import RougeScorer

    # split_summaries would ask for a sentence splitter that is downloaded: lines are sentences here.
    scorer = RougeScorer(names, use_stemmer=True, split_summaries=False)
    pairs = [scorer.score(reference, text) for reference, text in zip(references, predictions, strict=True)]
    scores = {name: 100 * sum(pair[name].fmeasure for pair in pairs) / len(pairs) for name in names}
    return scores, {"rouge": f"rouge-score {version('rouge-score')}, F1, stemmed, rougeLsum by lines"}


def _sacrebleu(names: list[str], predictions: list[str], references: list[str]) -> tuple[Scores, Notes]:
    """Corpus scores on the text as it is; the signatures say what was done to it."""
    from sacrebleu.metrics import BLEU, CHRF

    metrics = {name: {"bleu": BLEU, "chrf": CHRF}[name]() for name in names}
    scores = {name: float(metric.corpus_score(predictions, [references]).score) for name, metric in metrics.items()}
    return scores, {name: str(metric.get_signature()) for name, metric in metrics.items()}


def _exact_match(names: list[str], predictions: list[str], references: list[str]) -> tuple[Scores, Notes]:
    """The share of texts with the reference's words and marks in its order; case and spaces do not count."""
    equal = [_words(text) == _words(reference) for text, reference in zip(predictions, references, strict=True)]
    return {"exact_match": 100 * sum(equal) / len(equal)}, {"exact_match": "words and marks, without case and spaces"}


def entity_accuracy(
    predictions: Sequence[str], references: Sequence[str], entities: Mapping[str, Collection[str]]
) -> tuple[Scores, Notes]:
    """Of the entities that the references name, the share that the texts name in the same place, in percent.

    `entities` are words by kind (towns, trades ...). The first town of a text is compared with the first town of its
    reference, the second with the second, and so on for every kind: two people who change roles are both wrong.
    """
    right = wanted = 0
    for words in entities.values():
        known = {word.casefold() for word in words}
        for text, reference in zip(predictions, references, strict=True):
            named, expected = ([word for word in _words(each) if word in known] for each in (text, reference))
            wanted += len(expected)
            right += sum(word == goal for word, goal in zip(named, expected, strict=False))
    if not wanted:
        return {}, {}
    note = f"{' and '.join(entities)} of the references that stand in the same place among those of their kind"
    return {"entity_accuracy": 100 * right / wanted}, {"entity_accuracy": note}


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.casefold())


#: by name, as catalog/metric_names.py lists them: the function that scores texts by it, and by others like it at once
TEXT_METRICS: dict[str, Callable[[list[str], list[str], list[str]], tuple[Scores, Notes]]] = {
    **dict.fromkeys(ROUGE, _rouge),
    **dict.fromkeys(("bleu", "chrf"), _sacrebleu),
    "exact_match": _exact_match,
}
