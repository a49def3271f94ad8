"""Text larger than memory: streams that are read anew each time, and turns between several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Document = list[str]  # sentences
T = TypeVar("T")


class Stream(Iterable[T]):
    """Items made anew by each iteration, never held together."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        return self._make()


class Documents(Stream[Document]):
    """A stream of documents whose number is known."""

    def __init__(self, make: Callable[[], Iterator[Document]], count: int) -> None:
        super().__init__(make)
        self._count = count

    def __len__(self) -> int:
        return self._count


def in_turns(streams: Iterable[Iterator[T]]) -> Iterator[T]:
    """One item of each stream in turn, the longer ones alone at the end: a first part holds some of each."""
    running = list(streams)
    while running:
        for stream in list(running):
            try:
                yield next(stream)
            except StopIteration:
                running.remove(stream)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` items."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
