"""A client for version 1 of the Market Data Service API. It needs only the standard library.
Client is synchronous; AsyncClient has the same methods as coroutines.

    with Client("https://host", "mdk_live_…") as client:
        for row in client.rows(client.quotes, size=100):
            print(row.symbol, row.price)  # Decimal
"""

import asyncio
import base64
import contextlib
import hashlib
import http.client
import os
import socket
import ssl
import time
from datetime import datetime
from itertools import count
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, Literal, Self, TypeVar, Unpack, cast
from urllib.parse import unquote

from .core import (
    MAX_BODY, MAX_LINE, SILENCE, VERSION, Answer, ApiError, BadRequest, Core, Events, FileNotFound, HeadersTooLarge, InternalError,
    MarketDataError, MethodNotAllowed, NotFound, PathNotFound, PayloadTooLarge, PreconditionFailed, RangeNotSatisfiable,
    RateLimit, Reply, Request, RequestTimeout, ServiceUnavailable, SnapshotGone, Steps, TooManyRequests, TransportError, Unauthorized, method,
)
from .mirror import AsyncMirror, Mirror
from .types import (
    Asset, AssetsQuery, Candle, CandleSeries, CandlesQuery, CategoriesQuery, Category, Chain, ChainsQuery, Change, ChangedField, ChangesQuery,
    Entry, Exchange, ExchangeMarket, ExchangesQuery, Fees, File, Files, Gainer, Global, GlobalQuery, GroupMarket, History, HistoryQuery, Items, Market, MarketsQuery, Notice,
    Page, PriceAt, PriceSeries, PricesQuery, Quote, QuotesQuery, SearchQuery, TrendingQuery,
)

__version__ = VERSION
__all__ = [
    "Answer", "ApiError", "Asset", "AssetsQuery", "AsyncClient", "AsyncMirror", "BadRequest", "Candle", "CandleSeries", "CandlesQuery", "CategoriesQuery", "Category", "Chain",
    "ChainsQuery", "Change", "ChangedField", "ChangesQuery", "Client", "Entry", "Exchange", "ExchangeMarket", "ExchangesQuery", "Fees", "File", "FileNotFound", "Files", "Gainer", "Global",
    "GlobalQuery", "GroupMarket", "HeadersTooLarge", "History", "HistoryQuery", "InternalError", "Items", "Market", "MarketDataError",
    "MarketsQuery", "MethodNotAllowed", "Mirror", "NotFound", "Notice", "Page", "PathNotFound", "PayloadTooLarge", "PreconditionFailed",
    "PriceAt", "PriceSeries", "PricesQuery", "Quote", "QuotesQuery",
    "RangeNotSatisfiable", "RateLimit", "RequestTimeout", "SearchQuery", "ServiceUnavailable", "SnapshotGone", "TooManyRequests", "TransportError",
    "TrendingQuery", "Unauthorized",
]

T = TypeVar("T")
KEPT = 8  # the largest number of idle connections kept open


class _Transport(Core):
    """Sends requests, from any thread."""

    def __post_init__(self) -> None:
        super().__post_init__()
        url, proxy = self._url, self._proxy
        self._tls = ssl.create_default_context(cafile=self.ca_file) if url.scheme == "https" else None
        self._prefix = url.path.rstrip("/")
        self._tunnel: dict[str, str] = {}
        if proxy and proxy.username is not None:
            user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            self._tunnel = {"proxy-authorization": "Basic " + base64.b64encode(user.encode()).decode()}
        if proxy and not self._tls:
            self._prefix = f"http://{url.netloc}{self._prefix}"
            self._headers |= self._tunnel
        self._kept: list[http.client.HTTPConnection] = []

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        at = self._proxy or self._url
        host = cast(str, at.hostname)
        if not self._tls:
            return http.client.HTTPConnection(host, at.port, timeout=timeout)
        connection = http.client.HTTPSConnection(host, at.port or (80 if self._proxy else None), timeout=timeout, context=self._tls)
        if self._proxy:
            connection.set_tunnel(cast(str, self._url.hostname), self._url.port, self._tunnel)
        return connection

    def _ask(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        connection.request("GET", self._prefix + request.target, headers=self._headers | request.headers)
        return connection.getresponse()

    def _send(self, request: Request) -> Reply | TransportError:
        try:
            kept = self._kept.pop()  # pop and append are atomic
        except IndexError:
            kept = None
        if kept:
            try:
                return self._exchange(kept, request)
            except ConnectionError:
                pass  # the connection has been closed; use a new one
            except (OSError, http.client.HTTPException) as error:
                return self._broken(error)
        try:
            return self._exchange(self._connection(self.timeout), request)
        except (OSError, http.client.HTTPException) as error:
            return self._broken(error)

    def _broken(self, error: Exception) -> TransportError:
        return TransportError(f"{self._url.scheme}://{self._url.netloc}: {type(error).__name__}: {error}")

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> Reply:
        try:
            reply = self._read(self._ask(connection, request))
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
        if response.length:  # a read with a limit does not report a body that ends early
            raise http.client.IncompleteRead(body, response.length)
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, body)

    def _stream(self, request: Request) -> "_Stream | MarketDataError":
        connection = self._connection(SILENCE)
        try:
            connection.connect()
            stream = _Stream(connection, connection.sock, self._ask(connection, request))
            if stream.response.getheader("content-type", "").startswith("text/event-stream"):
                return stream
            self._read(stream.response).result()
            failure: MarketDataError = TransportError("no stream of events")
        except MarketDataError as error:
            failure = error
        except (OSError, http.client.HTTPException) as error:
            failure = self._broken(error)
        connection.close()
        return failure

    def _receive(self, file: File, part: str, attempt: int) -> float:
        """Makes one attempt to append the missing bytes of the file to part. Returns the seconds to wait before the
        next attempt, or a negative number if the file is complete. An attempt that received bytes resets
        the count of attempts."""
        before = os.path.getsize(part) if os.path.exists(part) else 0
        failure = self._append(file, part, before) if before < file.bytes else None
        if failure is None:
            return -1.0
        grew = os.path.exists(part) and os.path.getsize(part) > before
        return self._pause(failure, 0 if grew and self.retries else attempt)

    def _append(self, file: File, part: str, at: int) -> MarketDataError | None:
        connection = self._connection(self.timeout)
        # The tag ensures that bytes of another file are never appended.
        headers = {"range": f"bytes={at}-", "if-match": f'"{file.sha256}"'} if at else {}
        try:
            response = self._ask(connection, Request(file.url, headers))
            if response.status != (206 if at else 200):
                self._read(response).result()
                raise TransportError(f"status {response.status} in place of a part of the file")
            with open(part, "ab") as out:
                while block := response.read(min(1 << 16, file.bytes - at)):
                    out.write(block)
                    at += len(block)
            return None if at == file.bytes else TransportError(f"{file.name} ended early")
        except MarketDataError as error:
            return error
        except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
            return self._broken(error)
        finally:
            connection.close()

    def _complete(self, file: File, part: str, path: str | os.PathLike[str]) -> None:
        """Checks the digest of part, and moves part to path."""
        if not self._whole(file, part):
            os.remove(part)
            raise TransportError(f"{file.name} has another digest than {file.sha256}")
        os.replace(part, path)

    def _whole(self, file: File, path: str | os.PathLike[str]) -> bool:
        """Reports whether path contains the whole file."""
        if not os.path.exists(path) or os.path.getsize(path) != file.bytes:
            return False
        with open(path, "rb") as have:
            return hashlib.file_digest(have, "sha256").hexdigest() == file.sha256

    def close(self) -> None:
        """Closes the idle connections."""
        while self._kept:
            self._kept.pop().close()


class _Stream:
    """An open event stream."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket, response: http.client.HTTPResponse) -> None:
        self.connection, self.sock, self.response = connection, sock, response

    def line(self) -> bytes:
        """Returns the next line, or b"" if the stream has ended for any reason or the line is too long."""
        try:
            line = self.response.readline(MAX_LINE)
            return line if len(line) < MAX_LINE else b""
        except (OSError, http.client.HTTPException, ValueError):
            return b""

    def close(self) -> None:
        """Ends the stream, even while another thread is waiting for a line."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Client(_Transport):
    """Sends requests to one service. Its methods are safe to call from several threads.

    base_url is the URL of the service, such as "https://host", without /openapi/v1. key may be empty if the
    service requires none.

    timeout: the longest wait for the network, in seconds. It applies to each wait.
    retries: how many times a failed request may be repeated.
    max_wait: the longest wait between two attempts, in seconds, not counting Retry-After. If an error's Retry-After is
        longer, the error is raised immediately.
    user_agent: the name of a program, such as "board/2.1", to put before this client's name in the User-Agent header.
    proxy: such as "http://proxy:3128" or "http://user:password@proxy:3128".
    ca_file: a file of certificates (PEM) to trust instead of the system's.
    sleep: replaces the function that waits between attempts, for tests.

    Raises ValueError for an invalid value, and OSError if ca_file cannot be read."""

    _clock = staticmethod(time.sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def assets(self, **query: Unpack[AssetsQuery]) -> Answer[Page[Asset]]:
        """Lists the directory of assets."""
        return self._run(self._call("assets", Page[Asset], query))

    def quotes(self, **query: Unpack[QuotesQuery]) -> Answer[Page[Quote]]:
        """Lists the assets that have a price."""
        return self._run(self._call("quotes", Page[Quote], query))

    def markets(self, **query: Unpack[MarketsQuery]) -> Answer[Page[Market]]:
        """Lists the same quotes as quotes with their ranks, and can sort by any figure."""
        return self._run(self._call("markets", Page[Market], query))

    def trending(self, **query: Unpack[TrendingQuery]) -> Answer[Items[Quote]]:
        """Returns up to 20 assets, ordered by their 24-hour price change."""
        return self._run(self._call("trending", Items[Quote], query))

    def exchanges(self, **query: Unpack[ExchangesQuery]) -> Answer[Page[Exchange]]:
        """Lists exchanges."""
        return self._run(self._call("exchanges", Page[Exchange], query))

    def global_(self, **query: Unpack[GlobalQuery]) -> Answer[Global]:
        """Returns the market's totals. Raises NotFound before the first snapshot."""
        return self._run(self._call("global", Global, query))

    def categories(self, **query: Unpack[CategoriesQuery]) -> Answer[Page[Category]]:
        """Lists groups of assets."""
        return self._run(self._call("categories", Page[Category], query))

    def chains(self, **query: Unpack[ChainsQuery]) -> Answer[Page[Chain]]:
        """Lists blockchains."""
        return self._run(self._call("chains", Page[Chain], query))

    def history(self, **query: Unpack[HistoryQuery]) -> Answer[Page[History]]:
        """Lists the prices over a window for the assets that id, slug or symbol name."""
        return self._run(self._call("history", Page[History], query))

    def candles(self, **query: Unpack[CandlesQuery]) -> Answer[Page[CandleSeries]]:
        """Lists hourly or daily open, high, low and close prices for the assets that id, slug or symbol name."""
        return self._run(self._call("candles", Page[CandleSeries], query))

    def prices(self, **query: Unpack[PricesQuery]) -> Answer[Page[PriceSeries]]:
        """Lists the prices, at the given times, of the assets that id, slug or symbol name."""
        return self._run(self._call("prices", Page[PriceSeries], query))

    def changes(self, **query: Unpack[ChangesQuery]) -> Answer[Page[Change]]:
        """Lists what changed in the directory, newest first. Raises SnapshotGone if the service no longer has the changes
        since that time. In that case, read the listings again."""
        return self._run(self._call("changes", Page[Change], query))

    def search(self, words: str, **query: Unpack[SearchQuery]) -> Answer[Items[Asset]]:
        """Returns up to 20 assets. Each of the words must begin a word of the name, the symbol or the slug."""
        return self._run(self._call("search", Items[Asset], query, q=words))

    def files(self) -> Answer[Files]:
        """Lists the newest files."""
        return self._run(self._fetch(Request("/openapi/v1/files", {}, Files)))

    def download(self, file: File, path: str | os.PathLike[str]) -> None:
        """Writes a file to path, unless it already exists there. Until the whole file has arrived and matches its digest,
        the data is in path.part. An interrupted download resumes from that file, within this call or in a later one."""
        if self._whole(file, path):
            return
        part = f"{os.fspath(path)}.part"
        for attempt in count():
            if (wait := self._receive(file, part, attempt)) < 0:
                return self._complete(file, part, path)
            self.sleep(wait)

    def mirror(self, collection: Literal["assets", "categories", "chains", "exchanges"]) -> Mirror:
        """Returns an empty copy of a collection. Its first update reads the collection."""
        return Mirror(self, collection)

    def refresh(self, answer: Answer[T]) -> Answer[T]:
        """Sends the request again. If nothing has changed, the service sends only headers, and the new answer has the same result."""
        return self._run(self._fetch(answer._request, answer))

    def pages(self, call: Callable[..., Answer[Page[T]]], **query: Any) -> Iterator[Answer[Page[T]]]:
        """Reads a whole listing page by page. All pages are from the snapshot of the first answer, whatever is published
        meanwhile. Raises SnapshotGone if reading took longer than the service keeps snapshots. In that case, start
        again."""
        method(call)
        for number in count(query.pop("page", 1)):
            page = call(**query, page=number)
            yield page
            if number >= page.result.total_page:
                return
            query["at"] = page.snapshot_time

    def rows(self, call: Callable[..., Answer[Page[T]]], **query: Any) -> Iterator[T]:
        """Like pages, but yields row by row."""
        for page in self.pages(call, **query):
            yield from page.result.items

    def events(self) -> Iterator[datetime]:
        """Yields the time of the current snapshot, and then of each new snapshot that becomes current. Yields each event
        except the first after a random delay of at most three seconds, so that not all clients send requests at the
        same time. Pass the time as at in the next request, because it may reach an edge that does not have the new
        snapshot yet. Connects again when a stream ends. Raises an error if too many streams in a row fail, or end
        early without an event."""
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
    """Client for asyncio, with the same arguments as Client. Requests run in asyncio's threads; waits do not. A cancelled
    call returns immediately, and its thread ends when the request has ended."""

    _clock = staticmethod(asyncio.sleep)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

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

    async def assets(self, **query: Unpack[AssetsQuery]) -> Answer[Page[Asset]]:
        """See Client.assets."""
        return await self._run(self._call("assets", Page[Asset], query))

    async def quotes(self, **query: Unpack[QuotesQuery]) -> Answer[Page[Quote]]:
        """See Client.quotes."""
        return await self._run(self._call("quotes", Page[Quote], query))

    async def markets(self, **query: Unpack[MarketsQuery]) -> Answer[Page[Market]]:
        """See Client.markets."""
        return await self._run(self._call("markets", Page[Market], query))

    async def trending(self, **query: Unpack[TrendingQuery]) -> Answer[Items[Quote]]:
        """See Client.trending."""
        return await self._run(self._call("trending", Items[Quote], query))

    async def exchanges(self, **query: Unpack[ExchangesQuery]) -> Answer[Page[Exchange]]:
        """See Client.exchanges."""
        return await self._run(self._call("exchanges", Page[Exchange], query))

    async def global_(self, **query: Unpack[GlobalQuery]) -> Answer[Global]:
        """See Client.global_."""
        return await self._run(self._call("global", Global, query))

    async def categories(self, **query: Unpack[CategoriesQuery]) -> Answer[Page[Category]]:
        """See Client.categories."""
        return await self._run(self._call("categories", Page[Category], query))

    async def chains(self, **query: Unpack[ChainsQuery]) -> Answer[Page[Chain]]:
        """See Client.chains."""
        return await self._run(self._call("chains", Page[Chain], query))

    async def history(self, **query: Unpack[HistoryQuery]) -> Answer[Page[History]]:
        """See Client.history."""
        return await self._run(self._call("history", Page[History], query))

    async def candles(self, **query: Unpack[CandlesQuery]) -> Answer[Page[CandleSeries]]:
        """See Client.candles."""
        return await self._run(self._call("candles", Page[CandleSeries], query))

    async def prices(self, **query: Unpack[PricesQuery]) -> Answer[Page[PriceSeries]]:
        """See Client.prices."""
        return await self._run(self._call("prices", Page[PriceSeries], query))

    async def changes(self, **query: Unpack[ChangesQuery]) -> Answer[Page[Change]]:
        """See Client.changes."""
        return await self._run(self._call("changes", Page[Change], query))

    async def search(self, words: str, **query: Unpack[SearchQuery]) -> Answer[Items[Asset]]:
        """See Client.search."""
        return await self._run(self._call("search", Items[Asset], query, q=words))

    async def files(self) -> Answer[Files]:
        """See Client.files."""
        return await self._run(self._fetch(Request("/openapi/v1/files", {}, Files)))

    async def download(self, file: File, path: str | os.PathLike[str]) -> None:
        """See Client.download."""
        if await asyncio.to_thread(self._whole, file, path):
            return
        part = f"{os.fspath(path)}.part"
        for attempt in count():
            if (wait := await asyncio.to_thread(self._receive, file, part, attempt)) < 0:
                return await asyncio.to_thread(self._complete, file, part, path)
            await self.sleep(wait)

    def mirror(self, collection: Literal["assets", "categories", "chains", "exchanges"]) -> AsyncMirror:
        """See Client.mirror."""
        return AsyncMirror(self, collection)

    async def refresh(self, answer: Answer[T]) -> Answer[T]:
        """See Client.refresh."""
        return await self._run(self._fetch(answer._request, answer))

    async def pages(self, call: Callable[..., Awaitable[Answer[Page[T]]]], **query: Any) -> AsyncIterator[Answer[Page[T]]]:
        """See Client.pages."""
        method(call)
        for number in count(query.pop("page", 1)):
            page = await call(**query, page=number)
            yield page
            if number >= page.result.total_page:
                return
            query["at"] = page.snapshot_time

    async def rows(self, call: Callable[..., Awaitable[Answer[Page[T]]]], **query: Any) -> AsyncIterator[T]:
        """See Client.rows."""
        async for page in self.pages(call, **query):
            for row in page.result.items:
                yield row

    async def events(self) -> AsyncIterator[datetime]:
        """See Client.events."""
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
