"""Marian from a folder as it is published: tokenizer, a plain run, conversion, students, generation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tokenizers import Tokenizer, models
from transformers import MarianConfig, MarianMTModel
from transformers.convert_slow_tokenizer import import_protobuf

from benchmarks import translation
from spikelm.catalog.energy import seq2seq_terms
from spikelm.cli.generate import generate_main
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.tokens.marian_tokenizer import MarianTokenizer, is_marian, marian_tokenizer
from spikelm.errors import ConfigError, DataError
from spikelm.runs.experiment import run_experiment
from spikelm.runs.identity import id_of
from spikelm.runs.prerequisites import prerequisites
from spikelm.spiking import load_pretrained
from spikelm.training.stage import build_stage

QUIET = Console(quiet=True)
ENGLISH = {"▁the": -1.0, "▁cat": -2.0, "▁ca": -2.5, "t": -3.0, "▁sat": -2.0, "s": -4.0, "▁": -3.0, "c": -5.0, "a": -5.0}
FRENCH = {"▁le": -1.0, "▁chat": -2.0, "▁dort": -2.0, "s": -4.0, "▁": -3.0, "é": -4.0, "t": -5.0, "c": -5.0, "a": -5.0}
SIZES = {"d_model": 32, "max_position_embeddings": 128, "scale_embedding": True, "activation_function": "swish"}
PAIRS = [("the cat sat", "le chat dort"), ("the cats", "le chats"), ("cat", "chat"), ("the cat", "le chat dort")]


def sentencepiece(file: Path, pieces: dict[str, float]) -> None:
    """A unigram model as SentencePiece writes it: three special pieces, then scores."""
    model = import_protobuf().ModelProto()
    for number, name in enumerate(("<unk>", "<s>", "</s>")):
        model.pieces.add(piece=name, score=0.0, type=2 if number == 0 else 3)
    for piece, score in pieces.items():
        model.pieces.add(piece=piece, score=score, type=1)
    model.trainer_spec.model_type = 1
    model.trainer_spec.unk_id = 0
    file.write_bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Helsinki-NLP publishes its translators: two SentencePiece models and one vocabulary, pads as the last id."""
    path = tmp_path_factory.mktemp("hub") / "marian"
    vocabulary = ["</s>", "<unk>", *dict.fromkeys([*ENGLISH, *FRENCH]), "<pad>"]
    vocabulary.remove("c")  # a piece that only SentencePiece knows
    pad = len(vocabulary) - 1
    torch.manual_seed(0)
    stacks = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in STACK.items()}
    ids = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": 0}
    model = MarianMTModel(MarianConfig(vocab_size=len(vocabulary), init_std=0.3, **SIZES, **stacks, **ids))
    with torch.no_grad():
        model.final_logits_bias[0, pad] = 50.0  # it would be written again and again, were it not forbidden
    model.save_pretrained(path)
    (path / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(vocabulary)}))
    sentencepiece(path / "source.spm", ENGLISH)
    sentencepiece(path / "target.spm", FRENCH)
    return path


WITH_DROPOUT = ("finetune.steps=1", "backbone.dropout=0.1")
STACK = {"layers": 1, "ffn_dim": 48, "attention_heads": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    (root / "wmt14_en_fr").mkdir()
    for split, count in (("train", 12), ("val", 4), ("test", 3)):
        rows = [json.dumps({"en": en, "fr": fr, "source": "here"}) for en, fr in (PAIRS * 3)[:count]]
        (root / "wmt14_en_fr" / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    return root


def config_of(folder: Path, data: Path, runs: Path, *overrides: str) -> Config:
    where = [f"backbone.path={folder}", f"source.root={data}", f"runs_dir={runs}"]
    short = ["task.source_length=24", "task.target_length=24", "task.generate.max_length=24", "trainer.threads=1"]
    few = ["measure.samples=4", "finetune.batch=4", "convert.batch=4", "distill=seq2seq"]
    return load_config(["scale=minilm", "task=mt/wmt14_enfr", *where, *short, *few, *overrides])


def test_texts_become_the_pieces_of_their_language_by_the_best_score(folder: Path) -> None:
    tokenizer, ids = marian_tokenizer(folder), json.loads((folder / "vocab.json").read_text())

    def numbers(*pieces: str) -> list[int]:
        return [ids[piece] for piece in pieces]

    # -1 - 2 for the cat, where the ca t would be -1 - 2.5 - 3; the c of "c" is in no vocabulary
    rows = tokenizer.encode_sources([" the  cat ", "the cats", "c", "le"], 20)
    assert rows[0] == numbers("▁the", "▁cat", "</s>")
    assert rows[1] == numbers("▁the", "▁cat", "s", "</s>")
    assert rows[2] == numbers("▁", "<unk>", "</s>")
    assert ids["▁le"] not in rows[3], "a piece of the other language"
    assert tokenizer.encode_targets(["le chats"], 20) == [numbers("▁le", "▁chat", "s", "</s>")]
    assert tokenizer.encode_targets(["le chats"], 3) == [numbers("▁le", "▁chat", "</s>")]
    assert (tokenizer.decoder_start, tokenizer.pad, tokenizer.eos) == (ids["<pad>"], ids["<pad>"], 0)
    assert tokenizer.vocab_size == len(ids)
    assert tokenizer.decode([[ids["<pad>"], *numbers("▁le", "▁chat", "s"), 0, -100]]) == ["le chats"]


def test_what_is_no_tokenizer_of_a_marian_is_named(folder: Path, tmp_path: Path) -> None:
    assert is_marian(folder)
    assert not is_marian(tmp_path)
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "target.spm").unlink()
    with pytest.raises(DataError, match=r"has no target\.spm"):
        marian_tokenizer(tmp_path)
    (tmp_path / "target.spm").write_bytes(b"no such thing")
    with pytest.raises(DataError, match=r"target\.spm is no SentencePiece model"):
        marian_tokenizer(tmp_path)
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    with pytest.raises(DataError, match=r"vocab\.json is not a Marian's vocabulary"):
        marian_tokenizer(tmp_path)


def of_several_languages(folder: Path, place: Path) -> Path:
    """The same tokenizer with codes of languages in its vocabulary."""
    for name in ("source.spm", "target.spm"):
        (place / name).write_bytes((folder / name).read_bytes())
    ids = json.loads((folder / "vocab.json").read_text())
    codes = {code: len(ids) + number for number, code in enumerate((">>fr<<", ">>ro<<"))}
    (place / "vocab.json").write_text(json.dumps({**ids, **codes}))
    return place


def test_one_of_several_languages_reads_the_code_of_the_targets(folder: Path, tmp_path: Path) -> None:
    place = of_several_languages(folder, tmp_path)
    plain, ids = marian_tokenizer(folder), json.loads((place / "vocab.json").read_text())
    tokenizer = marian_tokenizer(place, ["en", "ro"])
    (row,) = plain.encode_sources(["the cats"], 20)
    assert tokenizer.encode_sources(["the cats"], 20) == [[ids[">>ro<<"], *row]]
    assert tokenizer.encode_sources(["the cats"], 3) == [[ids[">>ro<<"], row[0], 0]], "the code and the end stay"
    assert tokenizer.encode_targets(["le chats"], 20) == plain.encode_targets(["le chats"], 20)
    assert tokenizer.facts != marian_tokenizer(place, ["en", "fr"]).facts
    for languages in (["en_XX", "fr_XX"], []):
        with pytest.raises(DataError, match=r"the code in front of a text, and .*: fr, ro") as caught:
            marian_tokenizer(place, languages)
        assert "task.languages=" in caught.value.fix


def test_weights_for_other_languages_are_refused(folder: Path, data: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    told = {"source_lang": "en", "target_lang": "ro"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    with pytest.raises(DataError, match=r"translates en to ro .*, and the task en to fr"):
        run_experiment(config_of(tmp_path, data, tmp_path / "runs", "neuron=ann"), QUIET)
    assert marian_tokenizer(tmp_path, ["en_XX", "ro_RO"]).vocab_size == marian_tokenizer(tmp_path).vocab_size
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**told, "target_lang": "roa"}))
    marian_tokenizer(tmp_path, ["en_XX", "fr_XX"])


def test_a_test_alone_is_translated_and_by_a_conversion_too(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for side, name in enumerate(("en.txt", "fr.txt")):
        (tmp_path / "texts" / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    only = ["~task.splits.validation", "distill=none"]
    token = ["neuron=residual", "neuron.scale=token", "convert=only"]
    for overrides in (["neuron=ann"], token):
        result = run_experiment(config_of(folder, tmp_path / "texts", tmp_path, *only, *overrides), QUIET).result
        assert set(result.metrics) == {"bleu_test", "chrf_test", "loss"}
        assert result.source.rows == {"test": 4}
    for needing in (["neuron=residual", "convert=only"], ["neuron=ann", "finetune.steps=2"]):
        with pytest.raises(DataError, match="no file for train"):
            run_experiment(config_of(folder, tmp_path / "texts", tmp_path, *only, *needing), QUIET)


def test_a_plain_translator_is_measured_as_it_is(folder: Path, data: Path, tmp_path: Path) -> None:
    config = config_of(folder, data, tmp_path, "neuron=ann")
    finished = run_experiment(config, QUIET)
    result = finished.result
    assert (result.steps, result.spike_driven.verdict) == (0, "none")
    assert set(result.metrics) == {"bleu", "chrf", "bleu_test", "chrf_test", "loss"}
    assert result.metric_notes["bleu"].startswith("nrefs:1|case:mixed")
    given = MarianMTModel.from_pretrained(folder)
    assert result.parameters == sum(parameter.numel() for parameter in given.parameters())
    kept: Any = load_pretrained(finished.directory / "model").eval()
    state = given.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in kept.state_dict().items())
    tokenizer = marian_tokenizer(folder)
    by_hand = []  # one row at a time, the likeliest token but never a pad, until the end or as long as may be
    for english, _ in PAIRS:
        (read,), written = tokenizer.encode_sources([english], 24), [tokenizer.decoder_start]
        while written[-1] != 0 and len(written) <= min(23, 10 + 2 * len(read)):
            with torch.no_grad():
                logits = given.eval()(torch.tensor([read]), decoder_input_ids=torch.tensor([written])).logits[0, -1]
            logits[tokenizer.pad] = -torch.inf
            written.append(0 if len(written) == 23 else int(logits.argmax()))
        by_hand.append(tokenizer.decode([written])[0])
    assert [sample.generated for sample in result.samples] == by_hand


def test_a_conversion_says_what_neurons_cost_and_a_student_goes_on_from_it(
    folder: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    neuron = ("neuron=residual", "neuron.steps=3", "neuron.scale=token")
    rotated = (*neuron, "convert.rotation=hadamard")
    converted = run_experiment(config_of(folder, data, tmp_path, *rotated, "convert=only"), QUIET).result
    assert (converted.spike_driven.verdict, converted.spike_driven.decoding) == ("fully", "fully")
    assert converted.conversion is not None
    rates = converted.firing_rate.per_site
    assert len(rates) == 6 + 11, "of an encoder's block and a decoder's"
    expected = sum(term.macs * rates[term.site] * 0.9e-9 for term in seq2seq_terms(1, 1, 32, 48, 24, 24) if term.site)
    assert converted.energy_mj.fp32 == pytest.approx(expected, rel=1e-9)
    config = config_of(folder, data, tmp_path, *rotated, "convert=first", "distill=sequence", "finetune.steps=3")
    finished = run_experiment(config, QUIET)
    student = finished.result
    assert (student.converted, student.teacher) == (converted.run_id, converted.teacher)
    model: Any = load_pretrained(finished.directory / "model")
    given = MarianMTModel.from_pretrained(folder)
    assert torch.equal(model.model.shared.weight, given.model.shared.weight), "embeddings are frozen"
    assert not torch.equal(model.model.decoder.layers[0].fc2.weight, given.model.decoder.layers[0].fc2.weight)
    assert generate_main([finished.directory.as_posix(), "the cat", "--runs-dir", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "3 tokens read" in said.err
    assert "plain model" in said.err


def test_a_student_is_without_dropout_where_it_is_asked_for(folder: Path, data: Path, tmp_path: Path) -> None:
    def dropout(*options: str) -> tuple[float, float]:
        config = config_of(folder, data, tmp_path, "neuron=bispike", *WITH_DROPOUT, *options)
        needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
        module: Any = build_stage(config, needed, QUIET).module
        return module.model.model.encoder.dropout, module.model.model.decoder.layers[0].dropout

    assert dropout() == (0.1, 0.1)
    assert dropout("distill.start.dropout=false") == (0.0, 0.0)
    assert dropout("distill=states") == dropout("distill=states", "convert=first") == (0.0, 0.0)


@pytest.mark.parametrize("neuron", ["ann", "residual"])
def test_a_finished_translator_is_scored_again(
    neuron: str,
    folder: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [f"neuron={neuron}", *(["neuron.scale=token", "convert=only"] if neuron == "residual" else [])]
    finished = run_experiment(config_of(folder, data, tmp_path, *words, "source.dev_rows=2"), QUIET)
    assert finished.result.metrics["chrf"] > 0
    monkeypatch.setenv("COLUMNS", "200")
    overrides = [f"backbone.path={folder}", f"source.root={data}", f"runs_dir={tmp_path}", "task.source_length=24"]
    overrides += ["scale=minilm", "task=mt/wmt14_enfr", "task.target_length=24", "task.generate.max_length=24"]
    monkeypatch.setattr("sys.argv", ["", str(finished.directory), "--", *overrides, "source.dev_rows=2"])
    translation.main()
    said = capsys.readouterr().out
    assert "2 + 2 rows" in said
    (row,) = [line for line in said.splitlines() if line.startswith("│")]
    assert [float(cell) for cell in row.split("│")[2:6]] == [
        round(finished.result.metrics[name], 2) for name in ("bleu", "chrf", "bleu_test", "chrf_test")
    ]
    assert "nrefs:1|case:mixed" in said


def test_a_model_that_nothing_is_done_for_is_refused(folder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"finetune\.steps=0 is a model that nothing is done for") as caught:
        config_of(folder, data, tmp_path, "neuron=bispike")
    assert "convert=only" in str(caught.value.fix)
    assert config_of(folder, data, tmp_path, "neuron=bispike", "convert=only", "distill=general_rows").only_converts
    with pytest.raises(ConfigError, match="would measure random weights"):
        load_config(["task=mt/wmt14_enfr", "backbone=marian_tiny", "neuron=ann", "finetune.steps=0"])
    with pytest.raises(DataError, match=r"the micro-world .* has no task mt/wmt14_enfr"):
        build_stage(load_config(["task=mt/wmt14_enfr", "scale=smoke", "neuron=ann", f"runs_dir={tmp_path}"]), {}, QUIET)


def test_the_files_of_the_tokenizer_are_part_of_what_a_run_is(folder: Path, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    config = config_of(folder, data, tmp_path, "neuron=ann")
    moved = config_of(other, data, tmp_path, "neuron=ann")
    assert id_of(moved) == id_of(config)
    assert id_of(config_of(folder, data, tmp_path, "neuron=ann", "finetune.batch=2", "teacher.lr=1")) == id_of(config)
    sentencepiece(other / "target.spm", {**FRENCH, "▁sa": -2.0})
    assert id_of(config_of(other, data, tmp_path, "neuron=ann")) != id_of(config)


def test_targets_are_what_the_teacher_writes_once(
    folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("neuron=bispike", "distill=sequence", "finetune.steps=3", "finetune.batch=2")
    config = config_of(folder, data, tmp_path, *asked)
    plain = config_of(folder, data, tmp_path, *asked, "distill.targets=references")
    assert id_of(config) != id_of(plain)
    needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
    tokenizer: MarianTokenizer = marian_tokenizer(folder)
    references = build_stage(plain, needed, QUIET).train
    written: list[int] = []
    generate = MarianMTModel.generate
    monkeypatch.setattr(
        MarianMTModel, "generate", lambda self, *args, **how: written.append(1) or generate(self, *args, **how)
    )
    train = build_stage(config, needed, QUIET).train
    assert written
    model: Any = load_pretrained(needed["teacher"] / "model").eval()
    for step in range(3):
        batch, given = train[step], references[step]
        assert torch.equal(batch["input_ids"], given["input_ids"]), "the same sources, in the same order"
        for row, source, labels in zip(batch["rows"], batch["input_ids"], batch["labels"], strict=True):
            ids = source[source != tokenizer.pad][None]
            (made,) = generate(model, ids, max_length=24, do_sample=False).tolist()
            text = [id for id in made[1 : 11 + 2 * ids.shape[1]] if id not in (tokenizer.eos, tokenizer.pad)]
            assert labels[labels >= 0].tolist() == [*text, tokenizer.eos], int(row)
        start = torch.full((len(batch["labels"]), 1), tokenizer.pad)
        inputs = torch.cat([start, batch["labels"][:, :-1].clamp_min(0)], 1)
        real = batch["labels"] >= 0
        assert torch.equal(batch["decoder_input_ids"][real], inputs[real])
    before = len(written)
    again = build_stage(config, needed, QUIET).train
    assert len(written) == before, "kept in the store"
    assert np.array_equal(again[0]["labels"], train[0]["labels"])
    (kept,) = [path for path in (tmp_path / ".cache" / "written").iterdir() if path.is_dir()]
    parts = sorted(kept.glob("*.json"))
    parts[0].write_text(parts[0].read_text().replace("[", "[7, ", 1))  # damaged: made again
    assert np.array_equal(build_stage(config, needed, QUIET).train[0]["labels"], train[0]["labels"])
    assert len(written) > before
    longer = len(written)
    build_stage(config_of(folder, data, tmp_path, *asked, "finetune.steps=4"), needed, QUIET)
    rows = {int(row) for step in range(3) for row in train.rows(step)}
    assert (len(written) > longer) == (len(rows) < 12), "only rows that no run before has asked for"


def test_a_tokenizer_of_another_kind_is_left_to_the_others(tmp_path: Path) -> None:
    Tokenizer(models.BPE()).save(str(tmp_path / "tokenizer.json"))
    assert not is_marian(tmp_path)
