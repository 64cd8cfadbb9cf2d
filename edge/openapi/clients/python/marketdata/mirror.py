"""Copies of the directory, kept up to date by its changes."""

from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from .core import Answer, SnapshotGone, Steps
from .types import Change, Entry, Page

COLLECTIONS = ("assets", "categories", "chains", "exchanges")


@dataclass(eq=False)
class Mirrored:
    """The parts that both mirrors share."""

    _client: Any = field(repr=False)
    collection: str
    time: datetime | None = None  # of the snapshot that items reflects; None before the first update
    items: dict[int, Entry] = field(default_factory=dict, repr=False)  # by id

    def __post_init__(self) -> None:
        if self.collection not in COLLECTIONS:
            raise ValueError(f"there is no mirror of {self.collection!r}, only of {', '.join(COLLECTIONS)}")

    def _steps(self) -> Steps[None]:
        try:
            if self.time and (yield from self._follow(self.time)):
                return
        except SnapshotGone:
            pass
        items, at = {}, None
        for number in count(1):
            page = yield from self._list(page=number, at=at)
            at = page.snapshot_time
            items |= {entry.id: entry for entry in page.result.items}
            if number >= page.result.total_page:
                break
        self.time, self.items = at, items

    def _follow(self, since: datetime) -> Steps[bool]:
        """Updates the mirror by applying changes. Returns False if they do not lead to the current snapshot."""
        query = {"since": since, "collection": [self.collection], "size": 100}
        changed: set[int] = set()
        at = None
        for number in count(1):
            page = yield from self._client._call("changes", Page[Change], {**query, "page": number, "at": at})
            at = page.snapshot_time
            if at is None or at < since or page.result.total > len(self.items):
                return False
            changed |= {change.id for change in page.result.items}
            if number >= page.result.total_page:
                break
        ids = sorted(changed)
        entries = []  # the changed items that are still listed
        for first in range(0, len(ids), 100):
            answer = yield from self._list(id=ids[first : first + 100], at=at)
            entries += answer.result.items
        for id in ids:
            self.items.pop(id, None)
        self.items |= {entry.id: entry for entry in entries}
        self.time = at
        return True

    def _list(self, **query: Any) -> Steps[Answer[Page[Entry]]]:
        if self.collection == "assets":
            query["fields"] = ["links"]
        return self._client._call(self.collection, Page[Entry], {**query, "size": 100})


class Mirror(Mirrored):
    """A copy of the directory of a collection. Use Client.mirror to create one; it is empty at first. Several threads
    must not use it at the same time."""

    def update(self) -> None:
        """Brings the mirror up to date with the current snapshot. items then equals the whole listing of that snapshot.
        Requests the changes since time, and reads the changed items again. Reads the whole listing if the service no
        longer has the changes, has withdrawn the snapshot of time, or has more changes than the mirror has items.
        After an error, the mirror is unchanged."""
        self._client._run(self._steps())


class AsyncMirror(Mirrored):
    """Mirror for asyncio. Use AsyncClient.mirror to create one. Only one update may run at a time."""

    async def update(self) -> None:
        """See Mirror.update."""
        await self._client._run(self._steps())
