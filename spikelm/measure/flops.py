"""The matmuls of a training in floating-point operations, counted from the sizes for every kind of backbone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spikelm.catalog.energy import (
    Term,
    bertsum_terms,
    bilm_terms,
    elmo_terms,
    encoder_terms,
    lm_head_terms,
    pointer_terms,
    seq2seq_terms,
)
from spikelm.catalog.kinds import LABELLED, LM, kind_of, plain_terms
from spikelm.config.settings.fields import FINE_TUNING
from spikelm.config.settings.schema import Config

MASKED = 0.15  # of the tokens: only these reach the vocabulary in BERT's pretraining


@dataclass(frozen=True)
class RowMacs:
    """Multiply-accumulates of one row at its full length, forward and for one time step."""

    trained: float  # of what gradients flow through
    frozen: float = 0.0  # of what is only read
    head: float = 0.0  # of the vocabulary's matmul: once, after the mean over the time steps


def row_macs(config: Config) -> RowMacs:
    """The matmuls that one row of the run's training takes."""
    size, task, length = config.backbone, config.task, config.stage.max_length
    if task.kind == "seq2seq":
        return _pair_macs(config)
    if size.kind == "elmo":
        bilm = _sum(bilm_terms(size.layers, size.hidden, size.intermediate, size.options, length))
        if task.kind not in LABELLED:
            return RowMacs(bilm, head=2 * _sum(lm_head_terms(size.hidden, size.vocab, length)))  # in both directions
        pairs, labels = len(task.columns) == 2, max(1, len(task.labels))
        whole = elmo_terms(size.layers, size.hidden, size.intermediate, size.options, length, pairs, labels)
        return RowMacs(_sum(whole) - bilm, frozen=bilm)
    blocks = plain_terms(replace(size, layers=config.depth), length)
    if kind_of(size).causal:
        blocks = [_with_whole_map(term, length) for term in blocks]
    return RowMacs(_sum(blocks), head=_words_head(config))


def row_flops(config: Config) -> float:
    """Operations of training on one row: two per MAC, forward and twice that backward, T times for a spiking model.

    A teacher is asked once per row, forward only. Recomputed activations cost one forward more.
    """
    macs = row_macs(config)
    passes = 4 if config.trainer.activation_checkpointing else 3
    student = 2 * passes * config.time_steps * macs.trained + 2 * macs.frozen + 6 * macs.head
    return student + 2 * _asked(config) * _teacher_macs(config, macs)


def teacher_is_asked(config: Config) -> bool:
    """Whether a teacher computes the training rows as well."""
    if config.task.kind == "general":
        return True
    if config.task.kind == "pretrain":
        return config.converted and config.distill.pretrain
    return config.distills and config.distill.imitates


def _asked(config: Config) -> float:
    """How often the teacher is asked about a row each time that the student sees it."""
    if not teacher_is_asked(config):
        return 0.0
    once = config.run == FINE_TUNING and config.distill.teacher.cache and config.stage.epochs
    return 1 / config.stage.epochs if once and config.stage.epochs else 1.0


def _teacher_macs(config: Config, macs: RowMacs) -> float:
    """The teacher is the plain model of the same sizes; of texts that are written its words are imitated too."""
    return macs.trained + (macs.head if config.task.kind in ("seq2seq", LM) else 0.0)


def _with_whole_map(term: Term, length: int) -> Term:
    """A decoder that trains multiplies each token with all others, also with those behind it that it then masks."""
    return replace(term, macs=term.macs * 2 * length // (length + 1)) if " x " in term.name else term


def _words_head(config: Config) -> float:
    """The vocabulary's matmul of one row: of all tokens, but of the masked ones alone in BERT's pretraining."""
    if config.task.kind not in ("pretrain", LM):
        return 0.0
    size, length = config.backbone, config.stage.max_length
    every_token = _sum(lm_head_terms(size.hidden, size.vocab, length))
    if kind_of(size).causal or size.kind == "rwkv":
        return every_token
    transform = length * size.hidden**2
    return (every_token + transform) * (MASKED if kind_of(size).next_sentence else 1.0)


def _pair_macs(config: Config) -> RowMacs:
    """Of a source and a target text at their full lengths."""
    size, source, target = config.backbone, config.task.source_length, config.task.target_length
    decoder = size.decoder_layers or size.layers
    head = _sum(lm_head_terms(size.hidden, size.vocab, target))
    if size.kind == "ptgen":
        return RowMacs(_sum(pointer_terms(size.options["embedding"], size.hidden, source, target)), head=head)
    if size.kind == "bertsum":
        widths = (size.intermediate, size.options["decoder_intermediate"])
        terms = bertsum_terms(size.layers, decoder, size.hidden, widths, source, target)
        return RowMacs(_sum(terms), head=head + target * size.hidden**2)
    if size.kind == "gpt2":
        blocks = encoder_terms(size.layers, size.hidden, size.intermediate, source + target)
        return RowMacs(_sum(blocks), head=_sum(lm_head_terms(size.hidden, size.vocab, source + target)))
    return RowMacs(_sum(seq2seq_terms(size.layers, decoder, size.hidden, size.intermediate, source, target)), head=head)


def _sum(terms: list[Term]) -> float:
    return float(sum(term.macs for term in terms))
