"""Prints the market's total for each new snapshot, until it has printed the number of lines given as
its argument."""

import asyncio
import os
import sys
from itertools import count

from marketdata import AsyncClient


async def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else None  # None means forever
    number = count(1)
    async with AsyncClient(os.environ["MARKETDATA_URL"], os.environ["MARKETDATA_KEY"]) as client:
        async for at in client.events():
            total = await client.global_(at=at)
            print(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{total.result.total_market_cap:f}", flush=True)
            if next(number) == wanted:
                break


asyncio.run(main())
