"""A client of the Market Data Service, version 1 of its interface, for the standard
library alone: Client, and AsyncClient with the same methods to await.

    client = Client("https://host", "mdk_live_…")
    for row in client.rows(client.quotes, size=100):
        print(row.symbol, row.price)  # Decimal
"""

import asyncio
import contextlib
import http.client
import socket
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, TypeVar, Unpack, cast
from urllib.parse import urlsplit

from .core import (
    MAX_BODY, SILENCE, Answer, ApiError, BadRequest, Core, Events, MarketDataError, NotFound, RateLimit, Reply, Request,
    ServiceUnavailable, SnapshotGone, Steps, TooManyRequests, TransportError, Unauthorized,
)
from .types import (
    Asset, Category, Chain, Exchange, ExchangeMarket, Fees, Gainer, Global, GroupMarket, History, Items, Market, Page, Query,
    Quote,
)

__all__ = [
    "Answer", "ApiError", "Asset", "AsyncClient", "BadRequest", "Category", "Chain", "Client", "Exchange", "ExchangeMarket", "Fees",
    "Gainer", "Global", "GroupMarket", "History", "Items", "Market", "MarketDataError", "NotFound", "Page", "Query", "Quote", "RateLimit",
    "ServiceUnavailable", "SnapshotGone", "TooManyRequests", "TransportError", "Unauthorized",
]

T = TypeVar("T")
KEPT = 8  # connections kept open


@dataclass(eq=False)
class _Transport(Core):
    """Sends requests, from any thread."""

    def __post_init__(self) -> None:
        url = urlsplit(self.base)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"{self.base}: not like https://host")
        self._make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._at, self._prefix = (url.hostname, url.port), url.path.rstrip("/")
        self._kept: list[http.client.HTTPConnection] = []

    def _send(self, request: Request) -> Reply | TransportError:
        try:
            kept = self._kept.pop()  # atomic, as append is
        except IndexError:
            kept = None
        if kept:
            try:
                return self._exchange(kept, request)
            except ConnectionError:
                pass  # it was closed meanwhile
            except (OSError, http.client.HTTPException) as error:
                return TransportError(f"{type(error).__name__}: {error}")
        try:
            return self._exchange(self._make(*self._at, timeout=self.timeout), request)
        except (OSError, http.client.HTTPException) as error:
            return TransportError(f"{type(error).__name__}: {error}")

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> Reply:
        try:
            connection.request("GET", self._prefix + request.target, headers={"x-api-key": self.key, **request.headers})
            reply = self._read(connection.getresponse())
        except BaseException:
            connection.close()
            raise
        if len(self._kept) < KEPT:
            self._kept.append(connection)
        else:
            connection.close()
        return reply

    def _read(self, response: http.client.HTTPResponse) -> Reply:
        body = response.read(MAX_BODY)
        if response.length:  # a bounded read does not complain of a body that ends early
            raise http.client.IncompleteRead(body, response.length)
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, body)

    def _stream(self, request: Request) -> "_Stream | MarketDataError":
        connection = self._make(*self._at, timeout=SILENCE)
        try:
            connection.request("GET", self._prefix + request.target, headers={"x-api-key": self.key, **request.headers})
            stream = _Stream(connection, connection.sock, connection.getresponse())
            if stream.response.getheader("content-type", "").startswith("text/event-stream"):
                return stream
            self._read(stream.response).result()
            failure: MarketDataError = TransportError("no stream of events")
        except MarketDataError as error:
            failure = error
        except (OSError, http.client.HTTPException) as error:
            failure = TransportError(f"{type(error).__name__}: {error}")
        connection.close()
        return failure

    def close(self) -> None:
        """Closes the connections that are kept open."""
        while self._kept:
            self._kept.pop().close()


class _Stream:
    """An open stream of events."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket, response: http.client.HTTPResponse) -> None:
        self.connection, self.sock, self.response = connection, sock, response

    def line(self) -> bytes:
        """The next line; nothing when the stream has ended, however it did."""
        try:
            return self.response.readline(1 << 16)
        except (OSError, http.client.HTTPException, ValueError):
            return b""

    def close(self) -> None:
        """Ends the stream, also while another thread waits for a line."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Client(_Transport):
    """Asks one service. Its methods may be called from several threads."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def _run(self, steps: Steps[T]) -> T:
        done: Any = None
        try:
            while True:
                step, done = steps.send(done), None
                if isinstance(step, Request):
                    done = self._send(step)
                else:
                    self.sleep(step)
        except StopIteration as end:
            return cast(T, end.value)

    def assets(self, **query: Unpack[Query]) -> Answer[Page[Asset]]:
        return self._run(self.ask("assets", Page[Asset], query))

    def quotes(self, **query: Unpack[Query]) -> Answer[Page[Quote]]:
        return self._run(self.ask("quotes", Page[Quote], query))

    def markets(self, **query: Unpack[Query]) -> Answer[Page[Market]]:
        return self._run(self.ask("markets", Page[Market], query))

    def trending(self, **query: Unpack[Query]) -> Answer[Items[Quote]]:
        return self._run(self.ask("trending", Items[Quote], query))

    def exchanges(self, **query: Unpack[Query]) -> Answer[Page[Exchange]]:
        return self._run(self.ask("exchanges", Page[Exchange], query))

    def global_(self, **query: Unpack[Query]) -> Answer[Global]:
        return self._run(self.ask("global", Global, query))

    def categories(self, **query: Unpack[Query]) -> Answer[Page[Category]]:
        return self._run(self.ask("categories", Page[Category], query))

    def chains(self, **query: Unpack[Query]) -> Answer[Page[Chain]]:
        return self._run(self.ask("chains", Page[Chain], query))

    def history(self, **query: Unpack[Query]) -> Answer[Page[History]]:
        return self._run(self.ask("history", Page[History], query))

    def search(self, words: str, **query: Unpack[Query]) -> Answer[Items[Asset]]:
        return self._run(self.ask("search", Items[Asset], query, q=words))

    def refresh(self, answer: Answer[T]) -> Answer[T]:
        """Asks again. When nothing has changed, only headers are transferred and result is the one held."""
        return self._run(self.fetch(answer.request, answer))

    def pages(self, call: Callable[..., Answer[Page[T]]], **query: Unpack[Query]) -> Iterator[Answer[Page[T]]]:
        """Reads a whole listing page by page from one snapshot, that of the first answer, whatever is
        published meanwhile. SnapshotGone: it took longer than snapshots are retained; begin again."""
        for number in count(query.pop("page", 1)):
            page = call(**query, page=number)
            yield page
            if number >= page.result.total_page:
                return
            query["at"] = page.snapshot_time

    def rows(self, call: Callable[..., Answer[Page[T]]], **query: Unpack[Query]) -> Iterator[T]:
        """pages, row by row."""
        for page in self.pages(call, **query):
            yield from page.result.items

    def events(self) -> Iterator[datetime]:
        """Yields the time of the snapshot in force, and of each that comes into force; after the first
        one each at random within three seconds, so that not all clients ask at once. Ask with at=, so
        that no edge that is a moment behind answers. Connects again when the stream ends, and raises
        what ends it too often in a row."""
        events = Events(self)
        while True:
            stream = self._stream(events.request())
            if isinstance(stream, _Stream):
                with contextlib.closing(stream):
                    while line := stream.line():
                        if event := events.line(line):
                            self.sleep(event[1])
                            yield event[0]
            self.sleep(events.pause(stream))


class AsyncClient(_Transport):
    """Client for asyncio. Requests are sent on asyncio's threads; waits are not. Cancelled, a call
    returns at once, and its thread ends with its exchange."""

    sleep: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    async def _run(self, steps: Steps[T]) -> T:
        done: Any = None
        try:
            while True:
                step, done = steps.send(done), None
                if isinstance(step, Request):
                    done = await asyncio.to_thread(self._send, step)
                else:
                    await self.sleep(step)
        except StopIteration as end:
            return cast(T, end.value)

    async def assets(self, **query: Unpack[Query]) -> Answer[Page[Asset]]:
        return await self._run(self.ask("assets", Page[Asset], query))

    async def quotes(self, **query: Unpack[Query]) -> Answer[Page[Quote]]:
        return await self._run(self.ask("quotes", Page[Quote], query))

    async def markets(self, **query: Unpack[Query]) -> Answer[Page[Market]]:
        return await self._run(self.ask("markets", Page[Market], query))

    async def trending(self, **query: Unpack[Query]) -> Answer[Items[Quote]]:
        return await self._run(self.ask("trending", Items[Quote], query))

    async def exchanges(self, **query: Unpack[Query]) -> Answer[Page[Exchange]]:
        return await self._run(self.ask("exchanges", Page[Exchange], query))

    async def global_(self, **query: Unpack[Query]) -> Answer[Global]:
        return await self._run(self.ask("global", Global, query))

    async def categories(self, **query: Unpack[Query]) -> Answer[Page[Category]]:
        return await self._run(self.ask("categories", Page[Category], query))

    async def chains(self, **query: Unpack[Query]) -> Answer[Page[Chain]]:
        return await self._run(self.ask("chains", Page[Chain], query))

    async def history(self, **query: Unpack[Query]) -> Answer[Page[History]]:
        return await self._run(self.ask("history", Page[History], query))

    async def search(self, words: str, **query: Unpack[Query]) -> Answer[Items[Asset]]:
        return await self._run(self.ask("search", Items[Asset], query, q=words))

    async def refresh(self, answer: Answer[T]) -> Answer[T]:
        """As Client.refresh."""
        return await self._run(self.fetch(answer.request, answer))

    async def pages(self, call: Callable[..., Awaitable[Answer[Page[T]]]], **query: Unpack[Query]) -> AsyncIterator[Answer[Page[T]]]:
        """As Client.pages."""
        for number in count(query.pop("page", 1)):
            page = await call(**query, page=number)
            yield page
            if number >= page.result.total_page:
                return
            query["at"] = page.snapshot_time

    async def rows(self, call: Callable[..., Awaitable[Answer[Page[T]]]], **query: Unpack[Query]) -> AsyncIterator[T]:
        """As Client.rows."""
        async for page in self.pages(call, **query):
            for row in page.result.items:
                yield row

    async def events(self) -> AsyncIterator[datetime]:
        """As Client.events."""
        events = Events(self)
        while True:
            stream = await asyncio.to_thread(self._stream, events.request())
            if isinstance(stream, _Stream):
                with contextlib.closing(stream):
                    while line := await asyncio.to_thread(stream.line):
                        if event := events.line(line):
                            await self.sleep(event[1])
                            yield event[0]
            await self.sleep(events.pause(stream))
