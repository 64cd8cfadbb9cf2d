"""Prints the largest assets by market cap: ten, or the number given as its argument."""

import os
import sys
from itertools import islice

from marketdata import Client

count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
with Client(os.environ["MARKETDATA_URL"], os.environ["MARKETDATA_KEY"]) as client:
    for market in islice(client.rows(client.markets, sort="market_cap:desc", size=min(count, 100)), count):
        market_cap = "unknown" if market.market_cap is None else f"{market.market_cap:f}"
        print(market.id, market.symbol, f"{market.price:f}", market_cap)
