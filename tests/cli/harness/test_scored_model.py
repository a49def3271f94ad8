"""The harness's numbers against sums by hand over logits of single rows, for plain and spiking decoders."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

pytest.importorskip("lm_eval", reason='needs the extra lm-eval: pip install "spikelm[lm-eval]"')
pytest.importorskip("accelerate", reason='needs the extra lm-eval: pip install "spikelm[lm-eval]"')

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager
from tiny_decoders import MAX_LENGTH, SCORED

from spikelm.cli.harness.scored_model import ScoredModel
from spikelm.data import microworld
from spikelm.data.batches.windows import windows
from spikelm.errors import ConfigError
from spikelm.measure.perplexity import Predicted, lm_scores
from spikelm.spiking import load_pretrained

PROJECT = Path(__file__).resolve().parents[3]
Decoder = Callable[[str], Path]
TEXT = " ".join(" ".join(document) for document in microworld.documents(3, seed=7))
ROWS = [
    {"text": "tom gave the red ball to anna . who got the ball ?", "choices": ["anna .", "tom ."], "answer": 0},
    {"text": "the hen was behind the cart .", "choices": ["no , it was mia .", "yes .", "in july ."], "answer": 1},
    {"text": "omar", "choices": ["visited zoe on the bridge in winter .", "visit ."], "answer": 0},
    {"text": "where did sam paint the kite ?", "choices": ["in the hall .", "in the garden ."], "answer": 1},
]
TASKS = {
    "tiny_choice": """
output_type: multiple_choice
doc_to_text: text
doc_to_choice: choices
doc_to_target: answer
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
""",
    "tiny_text": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: text
metric_list: [{metric: word_perplexity}, {metric: bits_per_byte}]
""",
    "tiny_writing": """
output_type: generate_until
doc_to_text: text
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["o", " the"], max_gen_toks: 12, do_sample: false, temperature: 0.0}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
""",
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> TaskManager:
    """The three tasks and their rows, without the thousands of the harness."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (folder / "text.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    for name, body in TASKS.items():
        file = folder / ("text.jsonl" if name == "tiny_text" else "rows.jsonl")
        kwargs = json.dumps({"data_files": {"test": str(file)}, "cache_dir": str(folder / "cache")})
        head = f"task: {name}\ndataset_path: json\ndataset_kwargs: {kwargs}\ntest_split: test\n"
        (folder / f"{name}.yaml").write_text(head + body)
    return TaskManager(include_path=str(folder), include_defaults=False)


def evaluated(folder: Path, task: str, tasks: TaskManager, batch: int, **arguments: Any) -> tuple[dict, list[dict]]:
    """Results and samples of a task, the latter in the order of the rows."""
    done = simple_evaluate(
        model="spikelm",
        model_args={"run": str(folder), **arguments},
        tasks=[task],
        task_manager=tasks,
        batch_size=batch,
        device="cpu",
        bootstrap_iters=0,
    )
    return done["results"][task], sorted(done["samples"][task], key=lambda sample: sample["doc_id"])


@torch.no_grad()
def log_probabilities(model: Any, ids: list[int]) -> Tensor:
    """log p(token | those before) of each token but the first; one row, no padding, no cache."""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].double()
    return logits.log_softmax(-1)[:-1].gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize("batch", [1, 3])
def test_choices_have_the_likelihoods_that_logits_of_single_rows_give(
    name: str, batch: int, decoder: Decoder, tasks: TaskManager, text_tokenizer: Tokenizer
) -> None:
    model: Any = load_pretrained(decoder(name))
    scores, samples = evaluated(decoder(name), "tiny_choice", tasks, batch)
    right = []
    for row, sample in zip(ROWS, samples, strict=True):
        context = text_tokenizer.encode(row["text"]).ids
        expected = []
        for choice in row["choices"]:
            ids = text_tokenizer.encode(f"{row['text']} {choice}").ids
            expected.append(float(log_probabilities(model, ids)[len(context) - 1 :].sum()))
        assert [float(resp[0][0]) for resp in sample["resps"]] == pytest.approx(expected, abs=1e-4)
        right.append(expected.index(max(expected)) == row["answer"])
    assert scores["acc,none"] == sum(right) / len(right)


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize(("window", "batch"), [(MAX_LENGTH, 2), (24, 5)])
def test_a_text_has_the_likelihood_that_our_own_protocol_gives_it(
    name: str, window: int, batch: int, decoder: Decoder, tasks: TaskManager, text_tokenizer: Tokenizer
) -> None:
    model: Any = load_pretrained(decoder(name))
    limit = {} if window == MAX_LENGTH else {"max_length": window}
    scores, (sample,) = evaluated(decoder(name), "tiny_text", tasks, batch, **limit)
    ids = text_tokenizer.encode(TEXT, add_special_tokens=False).ids
    assert len(ids) > 3 * window
    loss = tokens = 0.0
    for each in windows(ids, text_tokenizer.token_to_id("<s>"), window, window, 1):
        (predicted,) = each["labels"]
        with torch.no_grad():
            logits = model(each["input_ids"], use_cache=False).logits[0].double()
        loss += float(torch.nn.functional.cross_entropy(logits, predicted, reduction="sum"))
        tokens += int((predicted >= 0).sum())
    assert tokens == len(ids)
    assert float(sample["resps"][0][0]) == pytest.approx(-loss, rel=1e-6)
    words, size = len(re.split(r"\s+", TEXT)), len(TEXT.encode())
    ours = lm_scores(Predicted(loss, 0, tokens, words, size), ["word_perplexity", "bits_per_byte"])
    assert scores["word_perplexity,none"] == pytest.approx(ours["word_perplexity"], rel=1e-5)
    assert scores["bits_per_byte,none"] == pytest.approx(ours["bits_per_byte"], rel=1e-6)
    assert math.exp(loss / words) == pytest.approx(ours["word_perplexity"])


@torch.no_grad()
def written(model: Any, ids: list[int], tokens: int, tokenizer: Tokenizer, until: list[str]) -> str:
    """Greedy, token by token, from a whole forward each time; cut at the first stop."""
    for _ in range(tokens):
        ids = [*ids, int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax())]
    text = tokenizer.decode(ids[-tokens:])
    return text[: min((text.find(stop) for stop in until if stop in text), default=None)]


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize("batch", [1, 4])
def test_continuations_of_padded_rows_are_those_of_single_rows(
    name: str, batch: int, decoder: Decoder, tasks: TaskManager, text_tokenizer: Tokenizer
) -> None:
    model: Any = load_pretrained(decoder(name))
    _, samples = evaluated(decoder(name), "tiny_writing", tasks, batch)
    assert len({len(text_tokenizer.encode(row["text"]).ids) for row in ROWS}) == len(ROWS), "all but one are padded"
    for row, sample in zip(ROWS, samples, strict=True):
        expected = written(model, text_tokenizer.encode(row["text"]).ids, 12, text_tokenizer, ["o", " the"])
        assert sample["resps"][0][0] == expected


def test_a_temperature_is_obeyed(decoder: Decoder) -> None:
    model = ScoredModel(run=str(decoder("bispike T=2")), device="cpu", batch_size=2)

    def told(**settings: Any) -> list[str]:
        settings = {"until": ["</s>"], "max_gen_toks": 10, **settings}
        requests = [Instance("generate_until", {}, (row["text"], settings), 0) for row in ROWS]
        torch.manual_seed(0)
        return model.generate_until(requests, disable_tqdm=True)

    greedy = told(temperature=0.0, do_sample=False)
    assert told(temperature=1e-4, do_sample=True) == greedy
    assert told(temperature=5.0, do_sample=True) != greedy


def test_neurons_that_see_the_whole_batch_are_refused(decoder: Decoder) -> None:
    with pytest.raises(ConfigError, match="depends on the tokens behind it") as error:
        ScoredModel(run=str(decoder("twn")), device="cpu")
    assert "neuron=bispike" in error.value.fix


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": "auto"}, "--batch_size auto tries what a GPU can hold"),
        ({"batch_size": "auto:4"}, "--batch_size auto tries what a GPU can hold"),
        ({"max_lenght": 8}, "max_lenght=... is not known; did you mean max_length"),
        ({"peft": "x"}, "peft=... is not known"),
        ({"pretrained": "gpt2"}, "pretrained=... is not known"),
    ],
)
def test_arguments_that_cannot_be_obeyed_are_refused(arguments: dict[str, Any], message: str, decoder: Decoder) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ScoredModel(run=str(decoder("plain")), device="cpu", **arguments)


def test_a_tokenizer_of_another_folder(decoder: Decoder, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).symlink_to(decoder("plain") / name)
    model = ScoredModel(run=str(bare), tokenizer=str(decoder("plain")), device="cpu")
    assert model.prefix_token_id == 0


def test_a_mark_in_front_of_texts_is_added_where_it_is_asked_for(decoder: Decoder, text_tokenizer: Tokenizer) -> None:
    model = ScoredModel(run=str(decoder("plain")), device="cpu", add_bos_token=True)
    assert model.tok_encode("tom") == [0, *text_tokenizer.encode("tom").ids]


def test_the_installed_package_names_the_model_for_versions_that_look_for_it() -> None:
    points = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]["lm_eval.models"]
    assert {name: EntryPoint(name, value, "lm_eval.models").load() for name, value in points.items()} == {
        "spikelm": ScoredModel
    }
    assert get_model("spikelm") is ScoredModel


def test_the_command_scores_the_task_of_the_examples(decoder: Decoder, tmp_path: Path) -> None:
    folder = decoder("bispike T=2")
    words = ["--model", "spikelm", "--model_args", f"run={folder}", "--include_path", "examples/lm_eval"]
    words += ["--tasks", "spikelm_microworld", "--batch_size", "8", "--output_path", str(tmp_path), "--log_samples"]
    done = subprocess.run(
        [sys.executable, "-c", "from spikelm.cli.main import harness; harness()", *words],
        cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub"), "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (told,) = re.findall(r"\|spikelm_microworld\|.*\|acc +\|↑ +\| *([\d.]+)\|", done.stdout)
    (samples,) = tmp_path.rglob("samples_spikelm_microworld_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(rows) == 40
    assert float(told) == sum(row["acc"] for row in rows) / 40
    chosen = [max(range(4), key=lambda index: float(row["resps"][index][0][0])) for row in rows]
    assert [float(pick == row["doc"]["answer"]) for pick, row in zip(chosen, rows, strict=True)] == [
        row["acc"] for row in rows
    ]
