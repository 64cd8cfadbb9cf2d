"""Copies of the directory that follow its changes."""

from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from .core import Answer, SnapshotGone, Steps
from .types import Change, Entry, Page

COLLECTIONS = ("assets", "categories", "chains", "exchanges")


@dataclass(eq=False)
class Mirrored:
    """What both mirrors share."""

    _client: Any = field(repr=False)
    collection: str
    time: datetime | None = None  # of the snapshot that items are of; None before the first update
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
        """Brings the mirror forward by the changes; False: they do not lead to the current snapshot."""
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
        entries = []  # those that are still listed
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
    """A copy of the directory of a collection, at first empty; Client.mirror makes one. It is not for several threads
    at the same time."""

    def update(self) -> None:
        """Brings the mirror to a snapshot that is current: items are then what the whole listing of that snapshot has.
        It asks for the changes since time, and reads again what changed. If the service does not hold the changes, has
        taken the snapshot of time back, or has more changes than the mirror has items, it reads the whole listing.
        After an error the mirror is as it was."""
        self._client._run(self._steps())


class AsyncMirror(Mirrored):
    """Mirror for asyncio; AsyncClient.mirror makes one. One update runs at a time."""

    async def update(self) -> None:
        """As Mirror.update."""
        await self._client._run(self._steps())
