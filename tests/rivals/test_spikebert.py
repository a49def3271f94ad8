"""SpikeBERT: its student against plain equations, both losses against plain sums, saved, audited and counted."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification

from spikelm.catalog.energy import encoder_terms, spikformer_terms, spiking_energy_mj
from spikelm.config.compose import load_config
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.specs import ClassSpec
from spikelm.config.settings.stages import ScheduleConfig, StageConfig
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.measure.firing import FiringMeter
from spikelm.measure.workload import parameter_count as planned
from spikelm.models.bert import parameter_count
from spikelm.rivals.spikebert.spikformer import SpikformerConfig, SpikformerForSequenceClassification
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites, teacher_of
from spikelm.spiking import load_pretrained, spikify
from spikelm.store.hashing import run_id
from spikelm.training.distill.students import GeneralModule, StudentModule, Teacher
from spikelm.training.optimization import learning_rate

torch.set_num_threads(1)
NEURON = ClassSpec("spikelm.neurons.lif_atan.LIFAtan", {"theta": 1.0})
LAYERS, HIDDEN, HEADS, FFN, VOCAB = 2, 32, 4, 64, 50
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": FFN,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def student(T: int = 4, mask: bool = False) -> Any:
    torch.manual_seed(0)
    made: Any = spikify(SpikformerForSequenceClassification(SpikformerConfig(mask=mask, **SIZES)), NEURON, T)
    with torch.no_grad():  # norms that let neurons fire more often than a fresh model's
        for name, parameter in made.named_parameters():
            if "norm.bias" in name:
                parameter.fill_(0.8)
    return made.eval()


def batch() -> dict[str, Tensor]:
    mask = torch.ones(3, 8, dtype=torch.long)
    mask[1:, 5:] = 0
    ids = torch.randint(1, VOCAB, (3, 8), generator=torch.Generator().manual_seed(1)) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(mask)}


def lif(x: Tensor, theta: float = 1.0) -> Tensor:
    v, spikes = torch.zeros_like(x[0]), []
    for step in x:
        h = v + (step - v) / 2
        spikes.append((h >= theta).to(x.dtype))
        v = h * (1 - spikes[-1])
    return torch.stack(spikes)


def reference(made: Any, ids: Tensor, T: int, mask: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Logits and the blocks' states over time, with loops over heads and time steps."""
    base = made.spikformer
    x = (base.embeddings.word_embeddings.weight[ids] >= 0).float().expand(T, -1, -1, -1)
    states = []

    def normed(linear: Any, h: Tensor) -> Tensor:
        out = h @ linear.weight.T + linear.bias
        return F.layer_norm(out, out.shape[-1:], linear.norm.weight, linear.norm.bias, 1e-5)

    for layer in base.encoder.layer:
        q, k, v = (lif(normed(getattr(layer.attention.self, name), x)) for name in ("query", "key", "value"))
        if mask is not None:
            k = k * mask[..., None]
        parts = torch.arange(HIDDEN).chunk(HEADS)
        heads = [q[..., p] @ k[..., p].transpose(-1, -2) @ v[..., p] * 0.125 for p in parts]
        x = x + lif(normed(layer.attention.output.dense, lif(torch.cat(heads, -1), 0.5)))
        x = x + lif(normed(layer.output.dense, lif(normed(layer.intermediate.dense, x))))
        states.append(x)
    norm = base.encoder.norm
    logits = []
    for step in x:
        tokens = F.layer_norm(step, (HIDDEN,), norm.weight, norm.bias)
        weights = torch.ones(ids.shape) if mask is None else mask.float()
        logits.append(made.classifier((tokens * weights[..., None]).sum(1) / weights.sum(1, keepdim=True)))
    return torch.stack(logits).mean(0), states


@pytest.mark.parametrize(("T", "mask"), [(1, False), (4, False), (4, True)])
def test_matches_the_equations(T: int, mask: bool) -> None:
    made, rows = student(T, mask), batch()
    with torch.no_grad():
        found = made(**rows, output_hidden_states=True)
        logits, states = reference(made, rows["input_ids"], T, rows["attention_mask"] if mask else None)
        transformed = [f(s.mean(0)) for f, s in zip(made.spikformer.transforms, states, strict=True)]
    assert {0.0, 1.0, 2.0} <= set(states[-1].unique().tolist())
    torch.testing.assert_close(found.logits, logits, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(found.hidden_states[1:], transformed, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_pads_count_unless_they_are_masked() -> None:
    rows = batch()
    changed = {**rows, "input_ids": torch.where(rows["attention_mask"] == 0, 7, rows["input_ids"])}
    for mask in (False, True):
        made = student(2, mask)
        with torch.no_grad():
            assert torch.equal(made(**rows).logits, made(**changed).logits) == mask


def teacher() -> Any:
    torch.manual_seed(5)
    return BertForSequenceClassification(BertConfig(**SIZES, num_labels=2)).eval()


def squared(a: Tensor, b: Tensor) -> float:
    return sum((x - y) ** 2 for x, y in zip(a.flatten().tolist(), b.flatten().tolist(), strict=True)) / a.numel()


def representations(made: Any, taught: Any, rows: dict[str, Tensor]) -> float:
    """(1/B) sum over the layers of the mean squared error, over all tokens: pads too."""
    with torch.no_grad():
        _, states = reference(made, rows["input_ids"], 4, None)
        goals = taught(**rows, output_hidden_states=True).hidden_states[1:]
        found = [f(s.mean(0)) for f, s in zip(made.spikformer.transforms, states, strict=True)]
    return sum(squared(a, b) for a, b in zip(found, goals, strict=True)) / len(rows["input_ids"])


def test_stage_one_is_the_sum_over_layers_by_rows() -> None:
    made, taught, rows = student(), teacher(), batch()
    settings = load_config(["system=spikebert", "task=general_distill"]).distill
    module = GeneralModule(made.spikformer, Teacher(taught.bert), settings, StageConfig(steps=2), 2, 0)
    loss = module.step_loss(rows)
    assert float(loss.detach()) == pytest.approx(representations(made, taught, rows), rel=1e-4)
    loss.backward()
    assert made.spikformer.embeddings.word_embeddings.weight.grad.abs().sum() > 0, "its words learn"


def test_stage_two_is_the_weighted_sum_of_four() -> None:
    made, taught, rows = student(), teacher(), batch()
    rows["labels"] = torch.tensor([0, 1, 1])
    config = load_config(["system=spikebert", "task=glue/sst2"])
    stage = StageConfig(steps=2)
    module = StudentModule(made, Teacher(taught), config.distill, config.task, stage, 2, 0)
    module._trainer = SimpleNamespace(global_step=0, world_size=1)  # type: ignore[assignment]
    inputs = {name: rows[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        ours, theirs = made(**inputs).logits, taught(**inputs).logits
    entropy = divergence = 0.0
    for row in range(3):
        p, q = theirs[row].softmax(-1).tolist(), ours[row].softmax(-1).tolist()
        entropy -= math.log(q[int(rows["labels"][row])]) / 3
        divergence += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / 3
    words = squared(made.spikformer.get_input_embeddings().weight, taught.bert.get_input_embeddings().weight)
    expected = 0.1 * words + 0.1 * entropy + 1.0 * divergence + 0.1 * representations(made, taught, inputs)
    assert float(module.step_loss(rows).detach()) == pytest.approx(expected, rel=1e-4)


def test_the_audit_calls_sums_of_spikes_additions() -> None:
    report = audit(student(), batch(), 4)
    assert (report.verdict, report.operations) == ("fully", "ACs")
    assert report.real_valued == ["classifier"]
    # q, k, v and the FFN's first read the residual; the first layer's q, k and v read the words' spikes alone
    assert sum(row.operand == "input, summed" for row in report.encoder) == 4 * LAYERS - 3
    broken = student()
    broken.spikformer.encoder.layer[1].output.dense._forward_hooks.clear()  # what it adds is not spikes any more
    broken.spikformer.encoder.layer[0].output.dense._forward_hooks.clear()
    assert audit(broken, batch(), 4).verdict == "partly"


def test_energy_counts_every_spike_that_the_residual_adds_up() -> None:
    made, rows, seen = student(), batch(), {}
    for index, layer in enumerate(made.spikformer.encoder.layer):
        for name, module in (("query", layer.attention.self.query), ("ffn1", layer.intermediate.dense)):
            module.register_forward_pre_hook(
                lambda _, args, key=(name, index): seen.update({key: float(args[0].mean())})
            )
    with torch.no_grad(), FiringMeter(made) as meter:
        made(**rows)
    rates = meter.by_site()
    terms = spikformer_terms(LAYERS, HIDDEN, FFN, 8)
    for (name, index), mean in seen.items():
        summed = [rates[str(term.site)] for term in terms if term.name == name and term.layer == index]
        assert sum(summed) == pytest.approx(mean, rel=1e-5)
    wide, square = 8 * HIDDEN * FFN, 8 * HIDDEN**2
    linears = sum(4.0 * (3 * square * seen["query", i] + wide * seen["ffn1", i]) for i in range(LAYERS)) * 0.9e-9
    rest = [term for term in terms if term.name not in ("query", "key", "value", "ffn1")]
    assert spiking_energy_mj(terms, rates, 4) == pytest.approx(linears + spiking_energy_mj(rest, rates, 4), rel=1e-5)
    assert {term.name for term in terms} == {term.name for term in encoder_terms(1, 1, 1, 1)}


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    made = student(2, mask=True)
    made.save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**batch()).logits, made(**batch()).logits)
    assert again.config.mask is True  # type: ignore[union-attr]


def test_the_plan_knows_the_sizes() -> None:
    size = BackboneConfig(
        name="x",
        kind="spikformer",
        layers=LAYERS,
        hidden=HIDDEN,
        heads=HEADS,
        intermediate=FFN,
        positions=16,
        vocab=VOCAB,
    )
    assert planned(size, False, 2) == parameter_count(student())


def test_two_stages_are_runs_and_the_teacher_is_berts_own() -> None:
    config = load_config(["system=spikebert", "task=glue/sst2"])
    needed = prerequisites(config)
    assert {role: run.task.name for role, run in needed.items()} == {
        "pretrained": "general_distill",
        "teacher": "glue/sst2",
    }
    plain = load_config(["system=bert", "task=glue/sst2"])
    assert run_id(identity(needed["teacher"])) == run_id(identity(plain))
    assert run_id(identity(teacher_of(needed["pretrained"]))) == run_id(
        identity(load_config(["task=pretrain", "neuron=ann"]))
    )
    ids = {
        run_id(identity(load_config(["system=spikebert", "task=general_distill", *more])))
        for more in ([], ["backbone.options.mask=true"], ["backbone.options.num_attention_heads=4"], ["neuron.tau=10"])
    }
    assert len(ids) == 4


def test_the_papers_scale_has_spikebert_recipe_and_a_teacher_of_its_own() -> None:
    config = load_config(["system=spikebert", "task=glue/cola", "scale=paper"])
    tuned, general, taught = config.finetune, config.general, config.teacher
    assert (tuned.epochs, tuned.batch, tuned.lr) == (30, 32, 5e-4)
    assert (tuned.optimizer.weight_decay, tuned.schedule.shape) == (5e-3, "cosine")
    assert (general.epochs, general.steps, general.batch) == (None, 78125, 256), "20 million rows"
    assert (general.lr, general.max_length) == (2e-4, 256)
    assert (taught.epochs, taught.lr, taught.schedule.shape) == (50, 2e-5, "constant")


def test_the_cosine_goes_down_once_an_epoch() -> None:
    stage = StageConfig(epochs=5, schedule=ScheduleConfig("cosine"))
    rates = [learning_rate(stage, 50, step) for step in range(50)]
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    expected = []
    for _ in range(5):
        expected += [optimizer.param_groups[0]["lr"]] * 10
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx(expected)


def test_nonsense_is_refused() -> None:
    system = ["system=spikebert", "task=glue/sst2"]
    for more, says in (
        (["distill=none"], "not pretrained"),
        (["distill.teacher.cache=true"], "pads"),
        (["backbone.options.num_attention_heads=7"], "does not divide"),
        (["distill.states.scaled=true"], r"reduction=rows"),
        (["backbone.options.mask=maybe"], "true or false"),
        (["distill.start.head=teacher"], "head"),
    ):
        with pytest.raises(ConfigError, match=says):
            load_config([*system, *more])
    with pytest.raises(ConfigError, match="task=pretrain is not valid for SpikeBERT"):
        load_config(["system=spikebert", "task=pretrain"])
