"""Updates mirrors of all collections for each line of its input, and then prints their state as a line of JSON.
With "async" before the URL, it uses AsyncClient."""

import asyncio
import hashlib
import inspect
import json
import sys
from typing import Any

from marketdata import AsyncClient, Client, MarketDataError


def digest(mirror: Any) -> str:
    """Returns the SHA-256 of a text form of all of the mirror's items, ordered by id."""
    sum = hashlib.sha256()
    for _, e in sorted(mirror.items.items()):
        links = "\t".join(f"{name}={value}" for name, value in sorted((e.links or {}).items()))
        fields = [str(e.id), e.name, e.symbol or "", e.slug, e.logo or "", "\t".join(e.explorers or []), links]
        sum.update(("\n".join(fields) + "\n").encode())
    return sum.hexdigest()


async def main() -> None:
    kind: Any = AsyncClient if "async" in sys.argv[1:-1] else Client
    client = kind(sys.argv[-1], "", retries=0)
    mirrors = [client.mirror(collection) for collection in ("assets", "categories", "chains", "exchanges")]
    for _ in sys.stdin:
        states = {}
        for mirror in mirrors:
            failed = False
            try:
                result = mirror.update()
                if inspect.isawaitable(result):
                    await result
            except MarketDataError:
                failed = True
            at = mirror.time.strftime("%Y-%m-%dT%H:%M:%SZ") if mirror.time else ""
            states[mirror.collection] = {"Time": at, "Digest": digest(mirror), "Failed": failed}
        print(json.dumps(states), flush=True)
    client.close()


asyncio.run(main())
