"""Parameters of each kind of backbone, counted from its sizes without torch."""

from __future__ import annotations

from spikelm.catalog.size import Size

CHARACTERS = 259  # that ELMo spells with: 256 bytes, the start and the end of a word, and none


def bert_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """BERT with its pretraining heads (decoder tied) or with a classifier."""
    h, i = size.hidden, size.intermediate
    embeddings = (size.vocab + size.positions + 2) * h + 2 * h
    layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 2 * 2 * h
    pooler = h * h + h
    heads = (h * h + h + 2 * h + size.vocab) + (2 * h + 2) if pretraining else h * num_labels + num_labels
    return embeddings + size.layers * layer + pooler + heads


def roberta_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """BERT without pooler and next sentence, one position more (the padding's), and a head of two linears."""
    h = size.hidden
    body = bert_parameters(size, False, 0) - (h * h + h) + h
    heads = h * h + h + (2 * h + size.vocab if pretraining else h * num_labels + num_labels)
    return body + heads


def bart_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """BART with its tied head."""
    h, i = size.hidden, size.intermediate
    attention, ffn = 4 * (h * h + h) + 2 * h, (h * i + i) + (i * h + h) + 2 * h  # each with its LayerNorm
    embeddings = size.vocab * h + 2 * (size.positions + 2) * h + 2 * 2 * h
    decoder = (size.decoder_layers or size.layers) * (2 * attention + ffn)
    return embeddings + size.layers * (attention + ffn) + decoder


def mbart_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """A BART with one more LayerNorm behind each stack."""
    return bart_parameters(size, pretraining, num_labels) + 2 * 2 * size.hidden


def marian_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """A BART whose embeddings have no LayerNorm, and whose sinusoidal positions start at 0."""
    return bart_parameters(size, pretraining, num_labels) - 2 * 2 * size.hidden - 2 * 2 * size.hidden


def spikingformer_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """BERT with a norm after each of a layer's six linears in place of its two."""
    return bert_parameters(size, pretraining, num_labels) + size.layers * (_norms(size) - 2 * 2 * size.hidden)


def spikformer_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """Words, blocks, and for each block a transform of its states to the teacher's."""
    h, i = size.hidden, size.intermediate
    layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + _norms(size)
    transform = h * h + h + 2 * h
    return size.vocab * h + size.layers * (layer + transform) + 2 * h + h * num_labels + num_labels


def rwkv_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """Words, blocks and a head that is not tied."""
    h, i = size.hidden, size.intermediate
    mixes = 5 * h * h + 2 * h * i + (2 + 3 + 2) * h  # linears; decay, bonus and the mixes of neighbours
    return 2 * size.vocab * h + size.layers * (mixes + 2 * 2 * h) + 2 * h


def elmo_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """The biLM with its softmax; for a task also the mix of its layers, a BiLSTM and an MLP over pairs of sentences."""
    h, cells, own = size.hidden, size.intermediate, size.options
    width = sum(own["filters"])
    filters = sum(count * (w * own["character_size"] + 1) for w, count in enumerate(own["filters"], start=1))
    highways = own["highways"] * 2 * (width * width + width)
    words = CHARACTERS * own["character_size"] + filters + highways + width * h + h
    projection = h if cells > h else 0
    layer = 4 * cells * (h + (projection or cells) + 2) + projection * cells
    bilm = words + 2 * size.layers * layer + h * size.vocab + size.vocab
    if pretraining:
        return bilm
    task, mlp = own["task_hidden"], own["task_mlp"]
    encoder = 2 * 4 * task * (2 * h + task + 2)
    return bilm + size.layers + 2 + encoder + (8 * task * mlp + mlp) + (mlp * num_labels + num_labels)


def ptgen_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """Words, a biLSTM that reads, an LSTM that writes, its attention, and a head that is not tied."""
    h, words = size.hidden, size.options["embedding"]
    both = 2 * h
    lstm = 4 * h * (words + h + 2)
    encoder = 2 * lstm + 2 * (both * h + h) + both * both
    attention = (both * both + both) + both + both
    decoder = (words + both) * words + words + lstm + attention + (2 * both + words + 1) + (3 * h * h + h)
    return size.vocab * words + encoder + decoder + h * size.vocab + size.vocab


def bertsum_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """A BERT without its pooler, and a decoder with words, cross attention and a tied head of its own."""
    h, i = size.hidden, size.options["decoder_intermediate"]
    encoder = bert_parameters(size, False, 0) - (h * h + h)
    embeddings = (size.vocab + size.positions + 2) * h + 2 * h
    layer = 8 * (h * h + h) + (h * i + i) + (i * h + h) + 3 * 2 * h
    head = h * h + h + 2 * h + size.vocab
    return encoder + embeddings + (size.decoder_layers or size.layers) * layer + head


def gpt2_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """GPT-2 with its tied head."""
    h, i = size.hidden, size.intermediate
    layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 2 * 2 * h
    return (size.vocab + size.positions) * h + size.layers * layer + 2 * h


def llama_parameters(size: Size, pretraining: bool, num_labels: int) -> int:
    """Llama, whose queries may share heads of keys and values; its head is tied unless `options.tied` is false."""
    h, i, own = size.hidden, size.intermediate, size.options
    head = own.get("head_size") or h // size.heads
    queries, keys = size.heads * head, (own.get("key_value_heads") or size.heads) * head
    layer = 2 * h * queries + 2 * h * keys + 3 * h * i + 2 * h
    return size.vocab * h * (1 if own.get("tied", True) else 2) + size.layers * layer + h


def _norms(size: Size) -> int:
    """One after each of the six linears of a layer."""
    return 5 * 2 * size.hidden + 2 * size.intermediate
