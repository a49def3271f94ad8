"""Documents tokenised by several processes, in the order they were handed in."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from types import TracebackType

from tokenizers import Tokenizer

from spikelm.data.sources.streams import Document, chunks
from spikelm.data.tokens.encode import encode_documents
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import SpikeLMError
from spikelm.machine.children import end_with_parent

CHUNK = 64  # documents tokenised at a time
AHEAD = 3  # shards in the hands of each worker, so that none waits for the reader
_tokenizer: Tokenizer | None = None  # of a worker


class TokenizerPool:
    """Processes with a tokenizer each; with `workers` = 0 this process does the work itself."""

    def __init__(self, tokenizer: Tokenizer, workers: int) -> None:
        self.tokenizer = tokenizer
        self.workers = workers
        self.ahead = AHEAD * workers
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> TokenizerPool:
        if self.workers:
            self._executor = ProcessPoolExecutor(
                self.workers,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would copy the tokenizers' threads' locks
                initializer=_start,
                initargs=(self.tokenizer.to_str(),),
            )
        return self

    def submit(self, documents: Mapping[str, list[Document]]) -> Future[dict[str, PackedDocuments]]:
        """Tokenise the documents of each split of a shard."""
        if self._executor is not None:
            return self._executor.submit(_encode, documents)
        done: Future[dict[str, PackedDocuments]] = Future()
        done.set_result(encode_shard(documents, self.tokenizer))
        return done

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            fix = "most often memory is short: --workers with fewer; the same command goes on"
            raise SpikeLMError("a process that tokenises was killed", fix) from error


def encode_shard(documents: Mapping[str, list[Document]], tokenizer: Tokenizer) -> dict[str, PackedDocuments]:
    """The documents of each split, packed."""
    return {
        split: PackedDocuments.of(
            chain.from_iterable(encode_documents(chunk, tokenizer) for chunk in chunks(of_split, CHUNK))
        )
        for split, of_split in documents.items()
    }


def _start(tokenizer: str) -> None:
    """What a worker does first."""
    global _tokenizer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are parallel already
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the process that reads, which ends this one
    end_with_parent()
    _tokenizer = Tokenizer.from_str(tokenizer)


def _encode(documents: Mapping[str, list[Document]]) -> dict[str, PackedDocuments]:
    assert _tokenizer is not None, "_start comes first"
    return encode_shard(documents, _tokenizer)
