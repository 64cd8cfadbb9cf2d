"""Keeps a copy of the asset directory, and prints the number of assets for each new snapshot, until it has
printed the number of lines given as its argument."""

import asyncio
import os
import sys
from itertools import count

from marketdata import AsyncClient


async def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else None  # None means forever
    number = count(1)
    async with AsyncClient(os.environ["MARKETDATA_URL"], os.environ["MARKETDATA_KEY"]) as client:
        assets = client.mirror("assets")
        async for _ in client.events():
            await assets.update()
            print(f"{assets.time:%Y-%m-%dT%H:%M:%SZ}", len(assets.items), flush=True)
            if next(number) == wanted:
                break


asyncio.run(main())
