"""Writes the prices of the three largest assets as CSV, for 30 days or for the window given as its
argument."""

import csv
import os
import sys

from marketdata import Client

window = sys.argv[1] if len(sys.argv) > 1 else "30d"
with Client(os.environ["MARKETDATA_URL"], os.environ["MARKETDATA_KEY"]) as client:
    largest = client.markets(size=3)
    ids = [market.id for market in largest.result.items]
    history = client.history(id=ids, window=window, at=largest.snapshot_time)
file = csv.writer(sys.stdout, lineterminator="\n")
file.writerow(["id", "symbol", "time", "price"])
for asset in history.result.items:
    for time, price in asset.points:
        file.writerow([asset.id, asset.symbol, f"{time:%Y-%m-%dT%H:%M:%SZ}", f"{price:f}"])
