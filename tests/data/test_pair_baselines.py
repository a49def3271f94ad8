"""Neither the first sentences nor a dictionary solves the embedded pairs."""

from __future__ import annotations

from spikelm.data.microworld.pair_baselines import dictionary, lead, report, word_for_word


def test_first_sentences_are_no_summary() -> None:
    for task, most in (("xsum", 15), ("cnn_dm", 25)):
        for name in ("lead", "last"):
            assert report(task)[name]["rougeL"] < most, (task, name)
    assert report("xsum")["another's"]["rouge2"] < 50, "the shape of a summary is not its content"


def test_a_dictionary_is_no_translator() -> None:
    scores = report("wmt16_enro")
    assert scores["word for word"]["bleu"] < 30
    assert scores["copy"]["bleu"] < scores["word for word"]["bleu"]


def test_the_dictionary_knows_its_words() -> None:
    words = dictionary()
    assert word_for_word("The cats are sleeping in front of the house.", words) == "Pisici sunt doarme în fața casă."
    assert lead("One. Two! Three.", 2) == "One.\nTwo!"
