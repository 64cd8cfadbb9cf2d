"""Prints the names of the client's API as JSON."""

import dataclasses
import inspect
import json

import marketdata
from marketdata.core import QUERIES


def methods(kind: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")]


def fields(kind: type) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if not f.name.startswith("_")]


assert methods(marketdata.Client) == methods(marketdata.AsyncClient)
exported = {name: getattr(marketdata, name) for name in marketdata.__all__}
documented = [*exported.values(), *(getattr(marketdata.Client, name) for name in methods(marketdata.Client))]
assert all(inspect.getdoc(what) for what in documented), documented
print(json.dumps({
    "methods": methods(marketdata.Client),
    "options": list(inspect.signature(marketdata.Client).parameters)[2:],
    "mirror": fields(marketdata.Mirror) + methods(marketdata.Mirror),
    "answer": fields(marketdata.Answer),
    "error": fields(marketdata.ApiError),
    "errors": [name for name, what in exported.items() if issubclass(what, Exception)],
    "queries": {name: list(query.__annotations__) for name, query in QUERIES.items()},
}))
