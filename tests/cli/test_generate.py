"""spikelm-generate: folders and runs, streams and records, and one clear message where a model cannot write."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_result import ENVIRONMENT, made_up
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, BertConfig, BertForSequenceClassification

from spikelm.cli import main as entries
from spikelm.cli.generate import generate_main
from spikelm.config.compose import load_config
from spikelm.data.tokens.bpe import train_bpe
from spikelm.models.bart import SpecialTokens, build_seq2seq
from spikelm.runs.experiment import open_run
from spikelm.spiking import calibrate, spikify
from spikelm.store.checksums import file_sums
from spikelm.store.store import Run

torch.set_num_threads(1)
TEXT = "the cat saw a bird, and the bird saw the café"
TEMPLATE = "{% for turn in messages %}<s>{{ turn['content'] }}</s>{% endfor %}"
TEMPLATE += "{% if add_generation_prompt %}a{% endif %}"
SIZES = {
    "llama": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
    },
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
}


def tokenizer() -> Tokenizer:
    """Byte-level, with the marks that a run's own tokenizer has."""
    return train_bpe([TEXT] * 4, 300)


@torch.no_grad()
def decoder(kind: str, T: int | None = None) -> Any:
    torch.manual_seed(0)
    ids = {"vocab_size": tokenizer().get_vocab_size(), "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, **SIZES[kind], **ids, tie_word_embeddings=False)
    )
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.mul_(4)
    if T is not None:
        spikify(model, "bispike", T=T)
        calibrate(model, {"input_ids": torch.randint(5, ids["vocab_size"], (4, 9))})
    return model.eval()


def saved(folder: Path, model: Any, **settings: Any) -> Path:
    """As a run leaves it: weights and tokenizer.json; with settings also tokenizer_config.json."""
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.out)
        return record


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    def called(*words: Any, piped: str | None = None) -> Said:
        capsys.readouterr()
        monkeypatch.setattr("sys.argv", ["spikelm-generate", *map(str, words)])
        monkeypatch.setattr("sys.stdin", io.StringIO(piped or ""))
        monkeypatch.setattr("sys.stdin.isatty", lambda: piped is None, raising=False)
        code = 0
        try:
            entries.generate()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return called


@pytest.mark.parametrize("T", [None, 1, 4])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_decoder_goes_on_with_a_text(kind: str, T: int | None, tmp_path: Path, call: Callable[..., Said]) -> None:
    model = decoder(kind, T)
    folder = saved(tmp_path / kind, model)
    said = call(folder, "the cat", "--max-new-tokens", 9)
    assert said.code == 0
    mine = tokenizer()
    ids = [0, *mine.encode("the cat").ids]  # config.json names the token that begins a text
    with torch.no_grad():
        out = model.generate(input_ids=torch.tensor([ids]), max_new_tokens=9, do_sample=False)[0].tolist()
    assert said.out == mine.decode(out)[len(mine.decode(ids)) :] + "\n"
    line = said.err.strip()
    assert line.startswith(f"{len(ids)} tokens read, {len(out) - len(ids)} written, ")
    assert ("spikes a token" in line) == (T is not None)
    assert ("plain model" in line) == (T is not None)
    assert ("all MACs" in line) == (T is None)
    assert "modelled energy a token" in line
    assert len(said.err.splitlines()) == 1


def test_a_record_says_what_the_line_says_and_more(tmp_path: Path, call: Callable[..., Said]) -> None:
    folder = saved(tmp_path / "model", decoder("llama", 2))
    told = call(folder, "the cat", "--max-new-tokens", 9)
    said = call(folder, "the cat", "--max-new-tokens", 9, "--json")
    record = said.record
    assert said.err == ""
    assert record["generated"] + "\n" == told.out
    assert (record["architecture"], record["time_steps"]) == ("SpikingLlamaForCausalLM", 2)
    assert record["tokens"]["through_the_model"] == record["tokens"]["read"] + record["tokens"]["written"] - 1
    energy = record["modelled_energy_per_token_mj"]
    assert 0 < energy["this_model"]["fp32"] < energy["plain_model"]["fp32"] * 2
    assert f"{record['spikes_per_token']:,.0f} spikes a token" in told.err
    assert record["decoding"]["most"] == 9


@pytest.mark.parametrize("words", [("-",), ()])
def test_a_text_comes_through_a_pipe(words: tuple[str, ...], tmp_path: Path, call: Callable[..., Said]) -> None:
    folder = saved(tmp_path / "model", decoder("gpt2"))
    record = call(folder, *words, "--json", "--max-new-tokens", 3, piped="the cat\nsaw\n").record
    assert record["text"] == "the cat\nsaw"
    said = call(folder)
    assert said.code == 2
    assert said.err.startswith("error: spikelm-generate needs TEXT\n  fix: ")


def test_an_empty_text_is_one_that_begins(tmp_path: Path, call: Callable[..., Said]) -> None:
    folder = saved(tmp_path / "model", decoder("gpt2"))
    assert call(folder, "", "--json", "--max-new-tokens", 3).record["tokens"]["read"] == 1


def test_tokens_are_printed_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path / "model", decoder("llama"))

    class Pieces(io.StringIO):
        written: list[str]

        def write(self, text: str) -> int:
            self.written.append(text)
            return super().write(text)

    def pieces(*words: str) -> list[str]:
        out = Pieces()
        out.written = []
        monkeypatch.setattr("sys.stdout", out)
        assert generate_main([str(folder), "the cat", "--max-new-tokens", "9", *words]) == 0
        return [piece for piece in out.written if piece]

    assert len(pieces()) > 4
    assert len(pieces("--beams", "2")) <= 2, "the text and the end of its line"


def test_a_question_is_put_in_the_template_where_there_is_one(tmp_path: Path, call: Callable[..., Said]) -> None:
    model = decoder("llama")
    plain = saved(tmp_path / "plain", model)
    said = call(plain, "the cat", "--chat")
    assert said.code == 2
    assert said.err == "error: --chat: the tokenizer of this model has no chat template\n  fix: leave --chat out\n"
    folder = saved(tmp_path / "chat", model, eos_token="</s>", chat_template=TEMPLATE)
    record = call(folder, "the cat", "--chat", "--json", "--max-new-tokens", 3).record
    mine = tokenizer()
    asked = mine.encode("<s>the cat</s>a").ids
    assert record["tokens"]["read"] == len(asked)
    out = model.generate(input_ids=torch.tensor([asked]), max_new_tokens=3, do_sample=False)[0].tolist()
    assert record["generated"] == mine.decode(out)[len(mine.decode(asked)) :]


def test_sampling_with_a_seed_can_be_repeated(tmp_path: Path, call: Callable[..., Said]) -> None:
    folder = saved(tmp_path / "model", decoder("gpt2"))
    how = ("--sample", "--temperature", "2", "--top-k", "40", "--top-p", "0.95", "--max-new-tokens", 9)
    words = (folder, "the cat", *how)
    first, again, other = (call(*words, "--seed", seed).out for seed in (3, 3, 4))
    assert first == again != other


def pair_run(neuron: str = "bispike", T: int = 1) -> Run:
    """A finished run of translations, with weights as training begins."""
    config = load_config(["task=mt/wmt16_enro", "scale=smoke", f"neuron={neuron}", f"T={T}", "seed=5"])
    run = open_run(config)
    run.start(config, ENVIRONMENT)
    torch.manual_seed(0)
    model: Any = build_seq2seq(config, config.backbone.vocab, SpecialTokens(1, 0, 2, 6))
    batch = {name: torch.randint(7, 200, (4, 9)) for name in ("input_ids", "decoder_input_ids")}
    (calibrate(model, batch) if config.spiking else model).save_pretrained(run.model)
    sums = file_sums(run.directory, [run.model])
    run.finish(made_up(run_id=run.id, config=config, task="mt/wmt16_enro", seed=5, files=sums))
    return run


@pytest.mark.parametrize(("neuron", "T"), [("ann", 1), ("bispike", 2)])
def test_a_run_writes_as_its_task_says(neuron: str, T: int, runs_dir: Path, call: Callable[..., Said]) -> None:
    run = pair_run(neuron, T)
    said = call(run.id[:6], "Ana thanked the girl.", "--json")
    record, task = said.record, load_config(["task=mt/wmt16_enro", "scale=smoke"]).task
    assert said.err.startswith(f"run {run.id}: mt/wmt16_enro")
    assert record["run_id"] == run.id
    assert record["decoding"]["beams"] == task.generate.beams
    assert record["decoding"]["most"] == task.generate.max_length - 1
    assert record["tokens"]["through_the_model"] >= record["tokens"]["read"] + record["tokens"]["written"]
    assert (record["spikes_per_token"] is None) == (neuron == "ann")
    beams = call(run.directory, "Ana thanked the girl.", "--beams", 3, "--max-new-tokens", 5, "--json").record
    assert beams["decoding"]["beams"] == 3
    assert beams["tokens"]["written"] == 5
    inside = call(run.model, "Ana thanked the girl.", "--json").record
    assert inside["generated"] == record["generated"], "the folder of the weights leads to their run"
    long = call(run.id, "Ana thanked the girl. " * 40, "--max-new-tokens", 2)
    assert long.code == 0
    assert f"it is cut to the task's {task.source_length}" in long.err


def test_a_run_without_weights_or_without_an_end_is_a_mistake(runs_dir: Path, call: Callable[..., Said]) -> None:
    run = pair_run()
    shutil.rmtree(run.model)
    said = call(run.id, "Ana is here.")
    assert said.code == 2
    assert "result only: its weights are not there" in said.err
    assert "make the run again: spikelm-run task=mt/wmt16_enro" in said.err
    config = load_config(["task=mt/wmt16_enro", "scale=smoke", "seed=6"])
    other = open_run(config)
    other.start(config, ENVIRONMENT)
    said = call(other.id, "Ana is here.")
    assert said.code == 2
    assert "is not finished\n  fix: it goes on where it stopped: spikelm-run" in said.err
    said = call("eeee", "Ana is here.")
    assert said.code == 2
    assert said.err.startswith("error: no run eeee in ")


def test_a_model_that_does_not_write_is_refused_before_its_weights_are_read(
    tmp_path: Path, call: Callable[..., Said]
) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes))
    for name, bert in (("plain", model), ("spiking", spikify(model, "lif", T=1))):
        folder = tmp_path / name
        bert.save_pretrained(folder)
        (folder / "model.safetensors").unlink()
        said = call(folder, "the cat")
        assert said.code == 2
        assert f"holds a {type(bert).__name__}, which does not write text\n  fix: a decoder" in said.err


def test_folders_that_are_no_models_are_told_apart(tmp_path: Path, call: Callable[..., Said]) -> None:
    (tmp_path / "empty").mkdir()
    said = call(tmp_path / "empty", "the cat")
    assert (said.code, "is neither a run nor the folder of a model" in said.err) == (2, True)
    folder = saved(tmp_path / "model", decoder("gpt2"))
    (folder / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    said = call(folder, "the cat")
    assert (said.code, "has no tokenizer\n  fix: put the tokenizer.json" in said.err) == (2, True)
    (folder / "tokenizer.json").write_text("{}")
    said = call(folder, "the cat")
    assert (said.code, "the tokenizer in" in said.err) == (2, True)
    (tmp_path / "tokenizer.json").replace(folder / "tokenizer.json")
    (folder / "model.safetensors").write_bytes(b"nothing")
    said = call(folder, "the cat")
    assert (said.code, "cannot be loaded" in said.err) == (2, True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["NobodyForCausalLM"]}))
    said = call(folder, "the cat")
    assert (said.code, "holds a NobodyForCausalLM, which neither" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--temperature", "0.5"), "--temperature has no effect: the likeliest token is taken each time"),
        (("--seed", "3"), "--seed has no effect"),
        (("--sample", "--temperature", "0"), "--temperature 0 is not valid; it is a number above 0"),
        (("--sample", "--top-p", "1.5"), "--top-p 1.5 is not valid"),
        (("--sample", "--top-k", "0"), "--top-k 0 is not valid"),
        (("--beams", "0"), "--beams 0 is not valid; it is a whole number of at least 1"),
        (("--max-new-tokens", "none"), "--max-new-tokens none is not a whole number"),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(
    words: tuple[str, ...], says: str, call: Callable[..., Said]
) -> None:
    said = call("no-such-run", "the cat", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {says}")


def test_a_text_has_to_fit_the_places_of_the_model(tmp_path: Path, call: Callable[..., Said]) -> None:
    folder = saved(tmp_path / "model", decoder("gpt2"))
    said = call(folder, TEXT * 20)
    assert said.code == 2
    assert "tokens, the model's places end at 64" in said.err
    said = call(folder, "the cat", "--max-new-tokens", 64)
    assert said.code == 2
    assert "fix: --max-new-tokens 6" in said.err
    room = int(said.err.rpartition(" ")[2])
    record = call(folder, "the cat", "--json").record
    assert record["decoding"]["most"] == room, "no more than fit, where nobody asks for more"
