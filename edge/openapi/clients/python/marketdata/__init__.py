"""A client of the Market Data Service, version 1 of its interface, for the standard
library alone: Client, and AsyncClient with the same methods to await.

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
KEPT = 8  # connections kept open


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
            kept = self._kept.pop()  # atomic, as append is
        except IndexError:
            kept = None
        if kept:
            try:
                return self._exchange(kept, request)
            except ConnectionError:
                pass  # it was closed meanwhile
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
        if response.length:  # a bounded read does not complain of a body that ends early
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
        """Appends to part what of the file is not there yet, once. Returns the seconds to wait before the next
        attempt, below 0 when nothing is missing; an attempt that brought something is the first again."""
        before = os.path.getsize(part) if os.path.exists(part) else 0
        failure = self._append(file, part, before) if before < file.bytes else None
        if failure is None:
            return -1.0
        grew = os.path.exists(part) and os.path.getsize(part) > before
        return self._pause(failure, 0 if grew and self.retries else attempt)

    def _append(self, file: File, part: str, at: int) -> MarketDataError | None:
        connection = self._connection(self.timeout)
        # With its tag no bytes of another file follow those that are there.
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
        """Checks the digest of part and moves it into its place."""
        if not self._whole(file, part):
            os.remove(part)
            raise TransportError(f"{file.name} has another digest than {file.sha256}")
        os.replace(part, path)

    def _whole(self, file: File, path: str | os.PathLike[str]) -> bool:
        """Whether the file is at path."""
        if not os.path.exists(path) or os.path.getsize(path) != file.bytes:
            return False
        with open(path, "rb") as have:
            return hashlib.file_digest(have, "sha256").hexdigest() == file.sha256

    def close(self) -> None:
        """Closes the connections that are kept open."""
        while self._kept:
            self._kept.pop().close()


class _Stream:
    """An open stream of events."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket, response: http.client.HTTPResponse) -> None:
        self.connection, self.sock, self.response = connection, sock, response

    def line(self) -> bytes:
        """The next line; nothing when the stream has ended, however it did, or the line is too long."""
        try:
            line = self.response.readline(MAX_LINE)
            return line if len(line) < MAX_LINE else b""
        except (OSError, http.client.HTTPException, ValueError):
            return b""

    def close(self) -> None:
        """Ends the stream, also while another thread waits for a line."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Client(_Transport):
    """Asks one service. Its methods may be called from several threads.

    base_url is "https://host", without /openapi/v1; key may be empty if the service needs none.

    timeout: seconds for each wait for the network.
    retries: how many attempts may follow the first one.
    max_wait: an error whose Retry-After is longer than these seconds is raised at once.
    user_agent: name of a program, "board/2.1", to put before this client's in the User-Agent.
    proxy: "http://proxy:3128" or "http://user:password@proxy:3128".
    ca_file: certificates (PEM) to trust in place of the system's.
    sleep: waits between attempts in place of the clock, for tests.

    Raises ValueError for an invalid value, OSError for a ca_file that cannot be read."""

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
        """Lists the quotes of quotes with their ranks, in the order of any figure."""
        return self._run(self._call("markets", Page[Market], query))

    def trending(self, **query: Unpack[TrendingQuery]) -> Answer[Items[Quote]]:
        """Returns up to 20 assets by their 24-hour change."""
        return self._run(self._call("trending", Items[Quote], query))

    def exchanges(self, **query: Unpack[ExchangesQuery]) -> Answer[Page[Exchange]]:
        """Lists exchanges."""
        return self._run(self._call("exchanges", Page[Exchange], query))

    def global_(self, **query: Unpack[GlobalQuery]) -> Answer[Global]:
        """Returns the market's totals; NotFound before the first snapshot."""
        return self._run(self._call("global", Global, query))

    def categories(self, **query: Unpack[CategoriesQuery]) -> Answer[Page[Category]]:
        """Lists groups of assets."""
        return self._run(self._call("categories", Page[Category], query))

    def chains(self, **query: Unpack[ChainsQuery]) -> Answer[Page[Chain]]:
        """Lists blockchains."""
        return self._run(self._call("chains", Page[Chain], query))

    def history(self, **query: Unpack[HistoryQuery]) -> Answer[Page[History]]:
        """Lists prices over a window, of the assets that id, slug or symbol name."""
        return self._run(self._call("history", Page[History], query))

    def candles(self, **query: Unpack[CandlesQuery]) -> Answer[Page[CandleSeries]]:
        """Lists open, high, low and close of hours or days, of the assets that id, slug or symbol name."""
        return self._run(self._call("candles", Page[CandleSeries], query))

    def prices(self, **query: Unpack[PricesQuery]) -> Answer[Page[PriceSeries]]:
        """Lists what the assets that id, slug or symbol name were worth at the times of time."""
        return self._run(self._call("prices", Page[PriceSeries], query))

    def changes(self, **query: Unpack[ChangesQuery]) -> Answer[Page[Change]]:
        """Lists what changed in the directory, newest first. SnapshotGone: the service no longer holds the changes
        since that time; read the listings again."""
        return self._run(self._call("changes", Page[Change], query))

    def search(self, words: str, **query: Unpack[SearchQuery]) -> Answer[Items[Asset]]:
        """Returns up to 20 assets whose name, symbol or slug has words that begin with those of words."""
        return self._run(self._call("search", Items[Asset], query, q=words))

    def files(self) -> Answer[Files]:
        """The newest files."""
        return self._run(self._fetch(Request("/openapi/v1/files", {}, Files)))

    def download(self, file: File, path: str | os.PathLike[str]) -> None:
        """Writes a file to path, unless it is there. What has arrived is in path.part until it is whole and has its
        digest: an interrupted download goes on from there, within this call and in the next one."""
        if self._whole(file, path):
            return
        part = f"{os.fspath(path)}.part"
        for attempt in count():
            if (wait := self._receive(file, part, attempt)) < 0:
                return self._complete(file, part, path)
            self.sleep(wait)

    def mirror(self, collection: Literal["assets", "categories", "chains", "exchanges"]) -> Mirror:
        """Returns an empty copy of a collection, which its update reads and then keeps up to date."""
        return Mirror(self, collection)

    def refresh(self, answer: Answer[T]) -> Answer[T]:
        """Asks again. When nothing has changed, only headers are transferred and result is the one held."""
        return self._run(self._fetch(answer._request, answer))

    def pages(self, call: Callable[..., Answer[Page[T]]], **query: Any) -> Iterator[Answer[Page[T]]]:
        """Reads a whole listing page by page from one snapshot, that of the first answer, whatever is
        published meanwhile. SnapshotGone: it took longer than snapshots are retained; begin again."""
        method(call)
        for number in count(query.pop("page", 1)):
            page = call(**query, page=number)
            yield page
            if number >= page.result.total_page:
                return
            query["at"] = page.snapshot_time

    def rows(self, call: Callable[..., Answer[Page[T]]], **query: Any) -> Iterator[T]:
        """pages, row by row."""
        for page in self.pages(call, **query):
            yield from page.result.items

    def events(self) -> Iterator[datetime]:
        """Yields the time of the snapshot in force, and of each that comes into force; after the first
        one each at random within three seconds, so that not all clients ask at once. Ask with at=, so
        that no edge that is a moment behind answers. Connects again when the stream ends, and raises
        an error when too many in a row fail, or end early without an event."""
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
    returns at once, and its thread ends with its exchange. The arguments are those of Client."""

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
        """As Client.assets."""
        return await self._run(self._call("assets", Page[Asset], query))

    async def quotes(self, **query: Unpack[QuotesQuery]) -> Answer[Page[Quote]]:
        """As Client.quotes."""
        return await self._run(self._call("quotes", Page[Quote], query))

    async def markets(self, **query: Unpack[MarketsQuery]) -> Answer[Page[Market]]:
        """As Client.markets."""
        return await self._run(self._call("markets", Page[Market], query))

    async def trending(self, **query: Unpack[TrendingQuery]) -> Answer[Items[Quote]]:
        """As Client.trending."""
        return await self._run(self._call("trending", Items[Quote], query))

    async def exchanges(self, **query: Unpack[ExchangesQuery]) -> Answer[Page[Exchange]]:
        """As Client.exchanges."""
        return await self._run(self._call("exchanges", Page[Exchange], query))

    async def global_(self, **query: Unpack[GlobalQuery]) -> Answer[Global]:
        """As Client.global_."""
        return await self._run(self._call("global", Global, query))

    async def categories(self, **query: Unpack[CategoriesQuery]) -> Answer[Page[Category]]:
        """As Client.categories."""
        return await self._run(self._call("categories", Page[Category], query))

    async def chains(self, **query: Unpack[ChainsQuery]) -> Answer[Page[Chain]]:
        """As Client.chains."""
        return await self._run(self._call("chains", Page[Chain], query))

    async def history(self, **query: Unpack[HistoryQuery]) -> Answer[Page[History]]:
        """As Client.history."""
        return await self._run(self._call("history", Page[History], query))

    async def candles(self, **query: Unpack[CandlesQuery]) -> Answer[Page[CandleSeries]]:
        """As Client.candles."""
        return await self._run(self._call("candles", Page[CandleSeries], query))

    async def prices(self, **query: Unpack[PricesQuery]) -> Answer[Page[PriceSeries]]:
        """As Client.prices."""
        return await self._run(self._call("prices", Page[PriceSeries], query))

    async def changes(self, **query: Unpack[ChangesQuery]) -> Answer[Page[Change]]:
        """As Client.changes."""
        return await self._run(self._call("changes", Page[Change], query))

    async def search(self, words: str, **query: Unpack[SearchQuery]) -> Answer[Items[Asset]]:
        """As Client.search."""
        return await self._run(self._call("search", Items[Asset], query, q=words))

    async def files(self) -> Answer[Files]:
        """As Client.files."""
        return await self._run(self._fetch(Request("/openapi/v1/files", {}, Files)))

    async def download(self, file: File, path: str | os.PathLike[str]) -> None:
        """As Client.download."""
        if await asyncio.to_thread(self._whole, file, path):
            return
        part = f"{os.fspath(path)}.part"
        for attempt in count():
            if (wait := await asyncio.to_thread(self._receive, file, part, attempt)) < 0:
                return await asyncio.to_thread(self._complete, file, part, path)
            await self.sleep(wait)

    def mirror(self, collection: Literal["assets", "categories", "chains", "exchanges"]) -> AsyncMirror:
        """As Client.mirror."""
        return AsyncMirror(self, collection)

    async def refresh(self, answer: Answer[T]) -> Answer[T]:
        """As Client.refresh."""
        return await self._run(self._fetch(answer._request, answer))

    async def pages(self, call: Callable[..., Awaitable[Answer[Page[T]]]], **query: Any) -> AsyncIterator[Answer[Page[T]]]:
        """As Client.pages."""
        method(call)
        for number in count(query.pop("page", 1)):
            page = await call(**query, page=number)
            yield page
            if number >= page.result.total_page:
                return
            query["at"] = page.snapshot_time

    async def rows(self, call: Callable[..., Awaitable[Answer[Page[T]]]], **query: Any) -> AsyncIterator[T]:
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
