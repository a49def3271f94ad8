"""What a summarisation or translation run is made of: pairs to model to module, and what is measured on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn

from spikelm.catalog.energy import energy_mj, spiking_energy_mj
from spikelm.catalog.seq2seq_energy import generation_terms, lm_head_terms, seq2seq_terms
from spikelm.config.schema import Config
from spikelm.config.specs import NeuronSpec, QuantizerSpec
from spikelm.config.task import GenerateConfig
from spikelm.data.batches.by_step import Batch
from spikelm.data.batches.text_pair_batches import TextPairBatches, evaluation_text_pairs, text_pair_batch
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import TextPairTokenizer, load_text_pair_tokenizer
from spikelm.data.tokens.cache import encoded_text_pairs
from spikelm.data.tokens.encode import encode_text_pairs
from spikelm.measure.trained_model import AUDIT_ROWS, audit_decoding, measure_firing, measure_terms
from spikelm.models.bart import SpecialTokens, build_seq2seq, load_public, load_seq2seq
from spikelm.store.file_facts import weights_record
from spikelm.training.best_epoch import select_mode
from spikelm.training.generation import Generator, ProgressLines, Split
from spikelm.training.optimization import total_steps
from spikelm.training.seq2seq import INPUTS, Seq2SeqModule, Seq2SeqStudent, Seq2SeqTeacher
from spikelm.training.stage import Stage, announced

EVALUATION_BATCH = 32


def pairs(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """BART or mBART; a student has its fine-tuned teacher among the `needed`."""
    return pairs_stage(config, console, load_text_pair_tokenizer, partial(_module, config, needed), measure_seq2seq)


def pairs_stage(
    config: Config,
    console: Console,
    load: Callable[..., TextPairTokenizer],
    module: Callable[[int, Generator, TextPairTokenizer], Seq2SeqModule],
    measure: Callable[[nn.Module, list[Batch], Config, Generator, int], dict[str, Any]],
    options: Mapping[str, Any] | None = None,
) -> Stage:
    """A task with pairs of texts; `load` gives its tokenizer, `module` is made for steps, generator and tokenizer.

    `options` of generate() are added to the task's.
    """
    task, stage = config.task, config.finetune
    text = announced(load_text_pairs(task, config.source), console)
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load(task, config.source, config.backbone, text, cache)
    encoded = {split: encoded_text_pairs(text, split, task, tokenizer, cache) for split in text.splits}
    train = TextPairBatches(encoded["train"], tokenizer, config.seed, stage.batch)
    total = total_steps(stage, train.steps_per_epoch)
    generator = _generator(config, text, tokenizer, console)
    generator.options = {**generator.options, **(options or {})}
    made = module(total, generator, tokenizer)
    generator = made.generator  # the module's own, where it has another
    first = next(iter(task.splits))
    # the first rows as they come: sorted by length, they would be the shortest
    rows = range(min(config.measure.samples, len(encoded[first])))
    samples = text_pair_batch(encoded[first], rows, tokenizer)

    def measured(model: nn.Module, some: list[Batch]) -> dict[str, Any]:
        if select_mode(config) != "last":  # the texts are of the last evaluation, the model is not
            generator.again(model, samples)
        return measure(model, some, config, generator, tokenizer.vocab_size)

    def report() -> dict[str, Any]:
        found = {"samples": generator.samples(), "metric_notes": generator.notes}
        return {**found, **({"weights": weights_record(config.backbone.path, cache)} if config.backbone.path else {})}

    return Stage(
        module=made,
        train=train,
        evaluation=[evaluation_text_pairs(encoded[split], tokenizer, EVALUATION_BATCH) for split in task.splits],
        samples=[{name: samples[name] for name in INPUTS}],
        evaluate_every=max(1, total // 5),
        source=text.record(config.source),
        constant={},
        measure=measured,
        report=report,
    )


def audit_pairs(config: Config) -> Batch:
    """The first rows of the first evaluated split, for the audit of a finished run."""
    task, cache = config.task, Path(config.runs_dir) / ".cache"
    text = load_text_pairs(task, config.source)
    tokenizer = load_text_pair_tokenizer(task, config.source, config.backbone, text, cache)
    rows = text.splits[next(iter(task.splits))][:AUDIT_ROWS]
    batch = text_pair_batch(encode_text_pairs(task, rows, tokenizer), range(len(rows)), tokenizer)
    return {name: batch[name] for name in INPUTS}


def _generator(config: Config, text: LoadedText, tokenizer: TextPairTokenizer, console: Console) -> Generator:
    task, settings = config.task, config.task.generate
    source, target = task.columns
    splits = [
        Split(suffix, [row[source] for row in text.splits[name]], [row[target] for row in text.splits[name]])
        for name, suffix in task.splits.items()
    ]
    options = generate_options(settings)
    progress = ProgressLines(console, task.name) if config.trainer.progress else None
    always = select_mode(config) != "last"
    family = task.name.partition("/")[0]
    return Generator(family, splits, options, lambda ids: tokenizer.decode([ids])[0], always, progress)


def generate_options(settings: GenerateConfig) -> dict[str, Any]:
    """task.generate in the words of transformers' generate()."""
    return {
        "num_beams": settings.beams,
        "min_length": settings.min_length,
        "max_length": settings.max_length,
        "length_penalty": settings.length_penalty,
        "no_repeat_ngram_size": settings.no_repeat_ngram,
        "early_stopping": settings.beams > 1,
        "do_sample": False,
    }


def _module(
    config: Config, needed: Mapping[str, Path], total: int, generator: Generator, tokenizer: TextPairTokenizer
) -> Seq2SeqModule:
    task, stage, settings = config.task, config.finetune, config.distill
    tokens = SpecialTokens(tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.decoder_start)
    plain = (task, stage, total, config.seed, generator)
    if "teacher" not in needed:
        return Seq2SeqModule(_fresh(config, tokenizer.vocab_size, tokens), *plain)
    folder = needed["teacher"] / "model"
    model: Any = (
        load_seq2seq(config, folder)
        if settings.start.weights == "teacher"
        else _fresh(config, tokenizer.vocab_size, tokens)
    )
    teacher: Any = load_teacher(config, folder)
    if settings.losses.attention:  # only the eager path has maps
        for one in (model, teacher):
            one.set_attn_implementation("eager")
    return Seq2SeqStudent(model, *plain, teacher=Seq2SeqTeacher(teacher, settings), settings=settings)


def _fresh(config: Config, vocab: int, tokens: SpecialTokens) -> nn.Module:
    """The backbone's own weights, or random ones."""
    if config.backbone.path:
        return load_public(config, vocab, tokens)
    return build_seq2seq(config, vocab, tokens)


def load_teacher(config: Config, folder: Path) -> nn.Module:
    """The plain fine-tuned model."""
    return load_seq2seq(replace(config, neuron=NeuronSpec(), weights=QuantizerSpec()), folder)


def measure_seq2seq(
    model: nn.Module, samples: list[Batch], config: Config, generator: Generator, vocab: int
) -> dict[str, Any]:
    """Energy at the task's full lengths, teacher-forced, and of what was really generated; the LM head apart."""
    size, task, T = config.backbone, config.task, config.time_steps
    sizes = (size.layers, size.decoder_layers or size.layers, size.hidden, size.intermediate)
    forced = seq2seq_terms(*sizes, task.source_length, task.target_length)
    found = measure_terms(model, samples, forced, T, config.fires, low_bit=config.converted and not config.fires)
    beams = int(generator.options["num_beams"])
    sources, targets = zip(*generator.lengths, strict=True)
    made = generation_terms(*sizes, sources, targets, beams)
    ann = energy_mj(made)
    if config.fires:
        prompts = [{name: batch[name] for name in ("input_ids", "attention_mask")} for batch in samples]
        rates = measure_firing(model, prompts, generator.options)
        spiking = spiking_energy_mj(made, rates, T)
    else:
        rates, spiking = {}, ann
    found["spike_driven"]["decoding"] = audit_decoding(model, samples[0], T, generator.options).verdict
    head = lm_head_terms(size.hidden, vocab, task.target_length)
    found["energy_detail"] = {
        "lengths": {"source": task.source_length, "target": task.target_length},
        "generated": {
            "fp32": spiking,
            "ann_fp32": ann,
            "beams": beams,
            "mean_source": sum(sources) / len(sources),
            "mean_target": sum(targets) / len(targets),
            "firing_rate_per_site": rates,
        },
        "lm_head_fp32": energy_mj(head),
    }
    return found
