"""Runs the test cases in a file with this client, and prints the result of each as a line of
JSON. The test in the folder clients starts the servers and writes their URLs into the file. With
"async" before the file's name, it uses AsyncClient."""

import asyncio
import dataclasses
import inspect
import json
import sys
from datetime import datetime
from decimal import Decimal
from typing import Any

from marketdata import ApiError, AsyncClient, Client, RateLimit, SnapshotGone, TransportError


def plain(value: Any) -> Any:
    """Converts a value to the form that it has in the service's JSON."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if dataclasses.is_dataclass(value):
        absent = {"rank", "links", "groups", "since", "notice", "symbol", "fields", "old", "new"} if not isinstance(value, RateLimit) else set()
        return {f.name: plain(v) for f in dataclasses.fields(value) if (v := getattr(value, f.name)) is not None or f.name not in absent}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


async def take(iterator: Any, into: list[Any], count: int = 0) -> list[Any]:
    """Appends up to count values from an iterator of either client to a list. A count of 0 means all."""
    while not into or len(into) != count:
        try:
            into.append(await anext(iterator) if hasattr(iterator, "__anext__") else next(iterator))
        except (StopIteration, StopAsyncIteration):
            return into
    if hasattr(iterator, "aclose"):
        await iterator.aclose()
    return into


async def run(case: dict[str, Any], kind: type) -> dict[str, Any]:
    waits: list[float] = []

    async def later(seconds: float) -> None:
        waits.append(seconds)

    query = {"from_" if name == "from" else name: value for name, value in case.get("query", {}).items()}
    for name in query.keys() & {"at", "from_", "to", "since"}:
        query[name] = datetime.fromisoformat(query[name])
    if "time" in query:
        query["time"] = [datetime.fromisoformat(at) for at in query["time"]]
    words = [case["words"]] if "words" in case else []

    async def value(result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result

    out: dict[str, Any] = {"case": case["name"]}
    client: Any = None
    try:
        client = kind(
            case["base"], case["key"], user_agent="conformance/1", sleep=waits.append if kind is Client else later,
            **({"retries": case["retries"]} if "retries" in case else {}),
        )
        call = getattr(client, {"global": "global_"}.get(case["call"], case["call"]))
        if case["call"] == "events":
            await take(call(), out.setdefault("events", []), case["take"])
        elif case.get("mode") == "pages":
            pages = await take(client.pages(call, **query), [])
            out["snapshots"] = plain([page.snapshot_time for page in pages])
            out["ids"] = [row.id for page in pages for row in page.result.items]
        elif case.get("mode") == "rows":
            out["ids"] = [row.id for row in await take(client.rows(call, **query), [])]
        else:
            answer = await value(call(*words, **query))
            if case.get("mode") == "refresh":
                answer = await value(client.refresh(answer))
            for name in ("result", "snapshot_time", "unchanged", "not_found", "ignored", "limit"):
                out[name] = plain(getattr(answer, name))
    except ApiError as error:
        out["error"] = {
            "key": error.message_key, "status": error.status, "code": error.code,
            "retry_after": error.retry_after or 0, "gone": isinstance(error, SnapshotGone),
        }
        out["limit"] = plain(error.limit)
    except TransportError:
        out["error"] = {"key": "TRANSPORT"}
    except (TypeError, ValueError):
        out["error"] = {"key": "INVALID"}
    if client:
        client.close()
    return plain(out | {"waits": [w for w in waits if w]})


async def main() -> None:
    with open(sys.argv[-1]) as file:
        cases = json.load(file)
    for case in cases:
        print(json.dumps(await run(case, AsyncClient if "async" in sys.argv[1:-1] else Client)), flush=True)


asyncio.run(main())
