"""What can be had on the embedded pairs for nothing: first sentences, a dictionary, a target of another row."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spikelm.data.microworld import SEQ2SEQ_TASKS, seq2seq
from spikelm.data.microworld.bilingual import PLACES
from spikelm.data.microworld.clauses import TIMES
from spikelm.data.microworld.romanian import ADJECTIVES, COUNTS, NOUNS, OWNERS
from spikelm.data.microworld.romanian_verbs import HE, VERBS

SENTENCES = {"xsum": 1, "cnn_dm": 3}  # as many as a summary has
SMALL_WORDS = {
    **{"the": "", "a": "", "an": "", "to": "", "do": "", "does": "", "did": "", "there": "", "for": ""},
    **{"i": "", "you": "", "we": "", "he": "el", "she": "ea", "they": "ei", "him": "îl", "her": "ei", "them": "îi"},
    **{"not": "nu", "will": "va", "and": "și", "who": "care", "that": "acel", "this": "acest", "these": "acești"},
    **{"those": "acei", "is": "este", "are": "sunt", "was": "era", "were": "erau", "be": "fi", "many": "mulți"},
    **{"like": "place", "likes": "place", "me": "mă", "us": "ne"},
}


def lead(document: str, sentences: int) -> str:
    """The first sentences of a document, one a line."""
    return "\n".join(re.split(r"(?<=[.!?]) ", document)[:sentences])


def last(document: str, sentences: int) -> str:
    """The last sentences, one a line."""
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
    found: list[str] = []
    while tokens:
        for size in (3, 2, 1):
            phrase = " ".join(tokens[:size]).lower()
            if len(tokens) >= size and (phrase in words or size == 1):
                found.append(words.get(phrase, tokens[0]))
                tokens = tokens[size:]
                break
    text = " ".join(filter(None, found))
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


def report(task: str, seed: int = 0) -> dict[str, dict[str, float]]:
    """Scores on the validation split by baseline."""
    from spikelm.measure.text_metrics import ROUGE, text_metrics

    splits = seq2seq(task, seed, {"train": 400, "test": 0})
    rows = splits["validation"]
    target = list(rows[0])[1]
    references = [row[target] for row in rows]
    names = ROUGE if task in SENTENCES else ("bleu", "chrf")
    # A target of the training rows, whatever the source: what a model has that knows how targets look.
    found = {**guesses(task, rows), "another's": [row[target] for row in splits["train"]]}
    return {name: text_metrics(names, texts, references)[0] for name, texts in found.items()}


def main() -> None:
    """Print the baselines of the three tasks."""
    for task in SEQ2SEQ_TASKS:
        for name, scores in report(task).items():
            print(f"{task:<11} {name:<14}", *(f"{metric} {value:.1f}" for metric, value in scores.items()), sep="  ")


if __name__ == "__main__":
    main()
