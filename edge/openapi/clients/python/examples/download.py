"""Mirrors the newest files into the folder given as its argument."""

import os
import sys

from marketdata import Client

folder = sys.argv[1] if len(sys.argv) > 1 else "files"
with Client(os.environ["MARKETDATA_URL"], os.environ["MARKETDATA_KEY"]) as client:
    for file in client.files().result.items:
        path = os.path.join(folder, file.name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        client.download(file, path)
        print(file.name, file.rows)
