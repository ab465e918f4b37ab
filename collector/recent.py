"""A bounded mapping of recent entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[V]):
    """The newest entries of a mapping, in two generations; `whole` until an entry was forgotten."""

    def __init__(self, size: int, *, whole: bool = True) -> None:
        self._size = size
        self._young: dict[Any, V] = {}
        self._old: dict[Any, V] = {}
        self.whole = whole

    def __bool__(self) -> bool:
        """Whether any entry is remembered."""
        return bool(self._young or self._old)

    def get(self, key: object) -> V | None:
        found = self._young.get(key)
        return found if found is not None else self._old.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._young or key in self._old

    def known(self, keys: Set[K]) -> Iterator[tuple[K, V]]:
        """The remembered keys among these, with their values."""
        for remembered in (self._old, self._young):
            yield from ((key, remembered[key]) for key in keys & remembered.keys())

    def put(self, key: object, value: V) -> None:
        self._young[key] = value
        self._age()

    def update(self, entries: Mapping[K, V]) -> None:
        """Adds all of these entries."""
        self._young.update(entries)
        self._age()

    def _age(self) -> None:
        if len(self._young) > self._size:
            self.whole = self.whole and not self._old
            self._old, self._young = self._young, {}
