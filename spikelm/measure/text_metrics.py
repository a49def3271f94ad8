"""Scores of generated texts: ROUGE as DQ-BART's scripts take it, BLEU and chrF by sacreBLEU; all in percent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from spikelm.errors import ConfigError, DataError

ROUGE: tuple[str, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum")
Scores = dict[str, float]
Notes = dict[str, str]  # how a score was computed, for the record


def text_metrics(kind: str, predictions: Sequence[str], references: Sequence[str]) -> tuple[Scores, Notes]:
    """ROUGE for `sum`, BLEU and chrF for `mt`, with how each was computed; an empty prediction scores 0."""
    if kind not in KINDS:
        raise ConfigError(f"no metrics for texts of kind {kind!r}", f"choose among: {', '.join(KINDS)}")
    if len(predictions) != len(references) or not references:
        raise DataError(f"{len(predictions)} predictions cannot be scored against {len(references)} references")
    scores, notes = KINDS[kind](list(predictions), list(references))
    if empty := sum(not text.strip() for text in predictions):
        notes["empty"] = f"{empty} of {len(predictions)} predictions are empty"
    return scores, notes


def _rouge(predictions: list[str], references: list[str]) -> tuple[Scores, Notes]:
    """Mean F1, words stemmed. rougeL takes a text as one sentence; rougeLsum takes each line as one."""
    from rouge_score.rouge_scorer import RougeScorer

    # split_summaries would ask for a sentence splitter that is downloaded: lines are sentences here.
    scorer = RougeScorer(list(ROUGE), use_stemmer=True, split_summaries=False)
    scored = [scorer.score(reference, text) for reference, text in zip(references, predictions, strict=True)]
    scores = {name: 100 * sum(one[name].fmeasure for one in scored) / len(scored) for name in ROUGE}
    return scores, {"rouge": f"rouge-score {version('rouge-score')}, F1, stemmed, rougeLsum by lines"}


def _translation(predictions: list[str], references: list[str]) -> tuple[Scores, Notes]:
    """Corpus scores on the text as it is; the signatures say what was done to it."""
    from sacrebleu.metrics import BLEU, CHRF

    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    scores = {name: float(metric.corpus_score(predictions, [references]).score) for name, metric in metrics.items()}
    return scores, {name: str(metric.get_signature()) for name, metric in metrics.items()}


KINDS: dict[str, Callable[[list[str], list[str]], tuple[Scores, Notes]]] = {"sum": _rouge, "mt": _translation}
