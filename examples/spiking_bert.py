# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A spiking BERT in two minutes
#
# We take a small BERT, replace the numbers that flow between its layers by spikes, look at those spikes, teach the
# model to tell good opinions from bad ones, and ask what it would cost to run. In the end we save it and load it again.
#
# Everything happens on one processor core and without a network: the sentences are made by spikelm itself. You need
# nothing but this package (`make setup`).

# %%
import tempfile
import warnings

warnings.filterwarnings("ignore")  # of libraries that miss a progress bar

import matplotlib.pyplot as plt
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification
from transformers.utils import logging

from spikelm.catalog.energy import encoder_terms, energy_mj, spiking_energy_mj
from spikelm.data.microworld import glue
from spikelm.data.tokens.wordpiece import fast_tokenizer, train_wordpiece
from spikelm.export.convert import export
from spikelm.measure.audit import audit
from spikelm.measure.trained_model import measure_firing
from spikelm.spiking import calibrate, load_pretrained, neurons, spikify

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.manual_seed(0)
torch.set_num_threads(1)

# %% [markdown]
# ## The data
#
# spikelm brings a little world of its own, in which eight tasks of the GLUE benchmark can be played. Here is the one
# that is like SST-2: is this opinion a good one (1) or a bad one (0)?

# %%
rows = glue("sst2", rows={"train": 4000, "validation": 500})
for row in rows["train"][:4]:
    print(row["label"], row["sentence"])

# %% [markdown]
# A tokenizer turns sentences into numbers. We train a small one on the sentences themselves; it takes a second.

# %%
LENGTH = 20
sentences = [row["sentence"] for row in rows["train"]]
tokenizer = fast_tokenizer(train_wordpiece(sentences, 600), LENGTH)


def batch_of(some_rows):
    """Rows as the tensors that the model reads."""
    texts = [row["sentence"] for row in some_rows]
    encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt")
    return {**encoded, "labels": torch.tensor([row["label"] for row in some_rows])}


dev = [batch_of(rows["validation"][start : start + 100]) for start in range(0, 500, 100)]
print("a batch:", tuple(dev[0]["input_ids"].shape))

# %% [markdown]
# ## From BERT to spikes
#
# This is an ordinary BERT of transformers, only smaller: two layers, 64 numbers per word. In so small a model the
# positions would drown the words, so we begin with quieter ones.

# %%
LAYERS, HIDDEN, INNER, T = 2, 64, 256, 2
config = BertConfig(
    vocab_size=len(tokenizer),
    hidden_size=HIDDEN,
    num_hidden_layers=LAYERS,
    num_attention_heads=4,
    intermediate_size=INNER,
    max_position_embeddings=LENGTH,
    initializer_range=0.05,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
model = BertForSequenceClassification(config)
with torch.no_grad():
    model.bert.embeddings.position_embeddings.weight.mul_(0.3)
    model.bert.embeddings.token_type_embeddings.weight.mul_(0.3)

# %% [markdown]
# One line makes it spike. `"bispike"` is the neuron of the SpikeLM paper: at each of T time steps it sends -a, 0 or a,
# and nothing in between. The neurons sit where matrices are multiplied, so that every product inside the layers
# becomes a sum. No weight has changed, and each keeps its name.

# %%
model = spikify(model, "bispike", k=2, T=T)
print(type(model).__name__, "with", len(list(neurons(model))), "neurons:")
for neuron in neurons(model):
    print("  ", neuron.site)

# %% [markdown]
# How high is a spike? The amplitude a is k times the mean size of what a neuron reads, so the neurons have to see some
# data first. `calibrate` shows them a batch; it trains nothing.

# %%
model = calibrate(model, batch_of(rows["train"][:64]))
first = next(neuron for neuron in neurons(model) if neuron.site == "encoder.layer.0.qkv_in")
print("amplitudes of the first neuron, one for each time step:", [round(float(a), 3) for a in first.alpha])

# %% [markdown]
# ## Looking inside
#
# A neuron adds what it reads to what is left in its membrane. Where the membrane m is more than half an amplitude away
# from zero the neuron fires, and of what it had, 0.25 m (a - s) is left for the next step. We listen to the first
# neuron while it reads one sentence, and calculate its membrane again by hand.

# %%
heard = {}
handle = first.register_forward_hook(lambda neuron, read, spikes: heard.update(read=read[0], spikes=spikes))
model.eval()
with torch.no_grad():
    model(**batch_of(rows["validation"][:1]))
handle.remove()

left, membranes = 0.0, []
for t in range(T):
    membrane = heard["read"][t] + left
    left = 0.25 * membrane * (first.alpha[t] - heard["spikes"][t])
    membranes.append(membrane)
membranes = torch.stack(membranes)
by_hand = first.alpha.view(T, 1, 1, 1) * (membranes / first.alpha.view(T, 1, 1, 1)).round().clamp(-1, 1)
print("spikes by hand are those of the model:", bool(torch.allclose(by_hand, heard["spikes"])))

# %%
words = tokenizer.convert_ids_to_tokens(batch_of(rows["validation"][:1])["input_ids"][0])
shown = [word for word in words if word != "[PAD]"]
figure, axes = plt.subplots(2, T, figsize=(8, 5), sharex=True, sharey=True, layout="constrained")
for t in range(T):
    for axis, values, name in ((axes[0, t], membranes, "membrane"), (axes[1, t], heard["spikes"], "spikes")):
        image = axis.imshow(values[t, 0, : len(shown), :24], cmap="RdBu", vmin=-2, vmax=2, aspect="auto")
        axis.set_title(f"{name}, step {t + 1}", fontsize=9)
        axis.set_yticks(range(len(shown)), shown, fontsize=7)
for axis in axes[1]:
    axis.set_xlabel("channel", fontsize=8)
figure.colorbar(image, ax=axes, shrink=0.7, label="value")
plt.show()

# %% [markdown]
# Above are real numbers, below is what the next layer gets: red for -a, blue for a, and white for silence.
#
# ## Training
#
# Training needs no trick of yours: the neurons bring a gradient of their own, so this is the loop that you know. Six
# passes over 4000 sentences take twenty seconds on a free core.


# %%
@torch.no_grad()
def accuracy(some_model):
    """The share of validation sentences that are judged right."""
    some_model.eval()
    right = sum(int((some_model(**batch).logits.argmax(-1) == batch["labels"]).sum()) for batch in dev)
    return right / sum(len(batch["labels"]) for batch in dev)


print(f"accuracy before training: {accuracy(model):.2f}")
EPOCHS, ROWS = 6, 32
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
steps = EPOCHS * len(rows["train"]) // ROWS
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
train, losses = batch_of(rows["train"]), []
for _ in range(EPOCHS):
    model.train()
    for chosen in torch.randperm(len(rows["train"])).split(ROWS):
        loss = model(**{name: tensor[chosen] for name, tensor in train.items()}).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
print(f"accuracy after {len(losses)} steps: {accuracy(model):.2f}")

# %%
figure, axis = plt.subplots(figsize=(5, 2.6), layout="constrained")
axis.plot(torch.tensor(losses).unfold(0, 10, 1).mean(-1))
axis.set(xlabel="step", ylabel="loss, mean of ten steps")
plt.show()

# %% [markdown]
# ## How often it fires, and what that costs
#
# A value that is zero costs nothing, because nothing is added. So we count: at which share of places does each neuron
# fire?

# %%
rates = measure_firing(model, dev)
for site, rate in rates.items():
    print(f"{site:<32}{rate:6.1%}  {'#' * round(40 * rate)}")

# %% [markdown]
# The paper's rule for energy: a multiplication with an addition costs 4.6 picojoules, an addition alone 0.9 (32-bit
# floats in 45 nm). The plain BERT multiplies at every place; the spiking one adds, in T steps, where a neuron fired.
# This is a model of energy, not a measurement with a meter.

# %%
terms = encoder_terms(LAYERS, HIDDEN, INNER, LENGTH)
plain, spiking = energy_mj(terms), spiking_energy_mj(terms, rates, T)
print(f"one sentence: plain {1000 * plain:.1f} µJ, spiking {1000 * spiking:.1f} µJ ({spiking / plain:.0%})")

# %% [markdown]
# ## Is it really driven by spikes?
#
# `audit` does not believe us. It watches every matrix product of a forward pass and looks at the numbers themselves:
# does one side hold nothing but -a, 0 and a?

# %%
report = audit(model, dev[0], T)
print(f"spike-driven: {report.verdict}, made of {report.operations}")
print("real-valued, outside of the layers:", ", ".join(report.real_valued))

# %% [markdown]
# ## Save, load, export
#
# `save_pretrained` and `load_pretrained` keep the neurons and their amplitudes. `export` writes a form for inference:
# thresholds and sums, which transformers loads like any other classifier.

# %%
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    model.save_pretrained(f"{folder}/spiking")
    again = load_pretrained(f"{folder}/spiking")
    print("the same logits after loading:", torch.equal(again(**dev[0]).logits, model(**dev[0]).logits))

    export(model).save_pretrained(f"{folder}/exported")
    exported = AutoModelForSequenceClassification.from_pretrained(f"{folder}/exported")
    print(f"accuracy: trained {accuracy(model):.3f}, exported {accuracy(exported):.3f}")

# %% [markdown]
# ## From here
#
# - Another neuron is another word: `spikify(model, "lif", T=4)`, or `"psn"`; `spikelm-run --help` lists them all.
# - `make demo` does all of this in one command, with checkpoints, energy and audit, and keeps the result.
# - A neuron of your own is one Python file and one YAML; the documentation has an example under "extend".
