"""Keeps a copy of the directory of assets, and prints with each new snapshot how many there are, until it has
printed as many lines as its argument says."""

import asyncio
import os
import sys
from itertools import count

from marketdata import AsyncClient


async def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else None  # for ever
    number = count(1)
    async with AsyncClient(os.environ["MARKETDATA_URL"], os.environ["MARKETDATA_KEY"]) as client:
        assets = client.mirror("assets")
        async for _ in client.events():
            await assets.update()
            print(f"{assets.time:%Y-%m-%dT%H:%M:%SZ}", len(assets.items), flush=True)
            if next(number) == wanted:
                break


asyncio.run(main())
