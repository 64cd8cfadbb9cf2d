"""The parts that both clients share: requests, retries, headers and answers. This module does
no input or output: its generators yield what the client must do next, and receive the result."""

import http.client
import json
import random
import re
import time
import zlib
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Generator, Generic, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from .types import (
    AssetsQuery, CandlesQuery, CategoriesQuery, ChainsQuery, ChangesQuery, ExchangesQuery, GlobalQuery, HistoryQuery, MarketsQuery, PricesQuery,
    QuotesQuery, SearchQuery, TrendingQuery,
)

T = TypeVar("T")
VERSION = "1.0.0"
MAX_BODY = 16 << 20  # bytes of an answer; a page of 100 rows is much smaller
SILENCE = 45.0  # seconds after which an event stream counts as dead; a live one sends a line every 15 s
ALIVE = 10.0  # seconds after which any line, even without an event, shows that a stream works
BACKOFF = 1.0  # the longest wait before the second attempt, in seconds; 3 retries survive an outage of 3 s
MAX_LINE = 1 << 16  # bytes
SPREAD = 3.0  # seconds over which clients spread their requests after an event
RETRIED = {408, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class RateLimit:
    """The state of the token bucket that the request was charged to. A full bucket holds quota requests, and an
    empty one is full after window seconds. Now, remaining requests are left, and the bucket is full after reset
    seconds."""

    quota: int
    window: int
    remaining: int
    reset: int


class MarketDataError(Exception):
    """The base class of all errors of this client and of the service."""


class TransportError(MarketDataError):
    """No complete answer from the service arrived."""


@dataclass(eq=False)
class ApiError(MarketDataError):
    """An answer that reports an error. Compare its message_key, or catch one of the subclasses."""

    status: int
    code: int  # of the envelope; 0 if an intermediary answered
    message_key: str  # "" if an intermediary answered
    message: str  # for people
    retry_after: int | None
    limit: RateLimit | None
    request_id: str | None

    def __str__(self) -> str:
        return f"{self.status} {self.message_key}: {self.message} (request {self.request_id})"


class BadRequest(ApiError):
    """A parameter or the time of the snapshot is invalid; message names it."""


class Unauthorized(ApiError):
    """The request has no valid API key."""


class NotFound(ApiError):
    """global_ was called before the first snapshot."""


class PathNotFound(ApiError):
    """The service is older and lacks the endpoint."""


class FileNotFound(ApiError):
    """There is no file with this name."""


class MethodNotAllowed(ApiError):
    """The method is not GET; this client never sends another one."""


class RequestTimeout(ApiError):
    """The request did not arrive in time."""


class SnapshotGone(ApiError):
    """The service no longer has the requested snapshot or the changes since then. Start the listing again."""


class PreconditionFailed(ApiError):
    """download: the file has since been replaced."""


class PayloadTooLarge(ApiError):
    """The request has a body; this client never sends one."""


class RangeNotSatisfiable(ApiError):
    """The file ends before the requested range; download never requests such a range."""


class TooManyRequests(ApiError):
    """The rate limit is exceeded."""


class HeadersTooLarge(ApiError):
    """The request is larger than 32 KiB. Request fewer values at a time."""


class InternalError(ApiError):
    """The service has failed."""


class ServiceUnavailable(ApiError):
    """The service cannot answer at present."""


# The error classes by message_key: BAD_REQUEST is BadRequest.
ERRORS: dict[str, type[ApiError]] = {re.sub("(?<!^)([A-Z])", r"_\1", e.__name__).upper(): e for e in ApiError.__subclasses__()}

# The parameters that each endpoint reads.
QUERIES: dict[str, Any] = {
    "assets": AssetsQuery, "quotes": QuotesQuery, "markets": MarketsQuery, "trending": TrendingQuery, "exchanges": ExchangesQuery,
    "global": GlobalQuery, "categories": CategoriesQuery, "chains": ChainsQuery, "history": HistoryQuery, "search": SearchQuery,
    "candles": CandlesQuery, "prices": PricesQuery, "changes": ChangesQuery,
}


@dataclass(frozen=True)
class Request:
    """A GET request, and the type of its result."""

    target: str
    headers: dict[str, str]
    result: Any = None


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A result together with the information in the response headers."""

    result: T
    snapshot_time: datetime | None  # of the answer's snapshot; None before the first snapshot
    not_found: dict[str, list[str]]  # values that match nothing, by filter (id, slug, …)
    ignored: list[str]  # names of parameters that had no effect on the answer
    limit: RateLimit | None
    request_id: str | None
    unchanged: bool  # set by refresh if the service says that result has not changed
    _etag: str = field(repr=False)
    _request: Request = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """An HTTP response. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def result(self) -> Any:
        """Returns the envelope's result, or raises the error that the answer reports."""
        envelope, failure = {}, None
        try:
            body = self.body
            if self.headers.get("content-encoding") == "gzip":
                body = zlib.decompressobj(31).decompress(body, MAX_BODY)
            envelope = json.loads(body)
            if self.status == 200:
                return envelope["result"]
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            failure = error
        if self.status == 200:
            raise TransportError(f"read the answer: {failure}")
        if not isinstance(envelope, dict):
            envelope = {}
        key, after = envelope.get("message_key", ""), self.headers.get("retry-after", "")
        message = envelope.get("message", http.client.responses.get(self.status, ""))
        raise ERRORS.get(key, ApiError)(
            self.status, envelope.get("code", 0), key, message,
            int(after) if re.fullmatch("[0-9]{1,9}", after) else None, limit(self.headers), self.headers.get("x-request-id"),
        )


# A generator yields a Request, and receives a Reply or an error; or it yields a number of seconds
# to wait.
Steps = Generator[Request | float, Any, T]


@dataclass(eq=False)
class Core:
    """The arguments of Client, which documents them, and the values derived from them."""

    base_url: str
    key: str = field(repr=False)
    _: KW_ONLY
    timeout: float = 10.0
    retries: int = 3
    max_wait: float = 30.0
    user_agent: str = ""
    proxy: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    sleep: Any = None
    _clock: ClassVar[Any]

    def __post_init__(self) -> None:
        for name in ("base_url", "key", "user_agent"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a str, not {type(getattr(self, name)).__name__}")
        for name in ("timeout", "max_wait"):
            if not isinstance(getattr(self, name), (int, float)):
                raise TypeError(f"{name} must be a number, not {getattr(self, name)!r}")
        if not isinstance(self.retries, int):
            raise TypeError(f"retries must be an int, not {self.retries!r}")
        # No message repeats a URL, because it may be a misplaced key.
        url, proxy = located("base_url", self.base_url), located("proxy", self.proxy or "http://none")
        if url.username is not None or url.query or url.fragment:
            raise ValueError("base_url must have no user, query or fragment")
        if url.path.rstrip("/").endswith("/openapi/v1"):
            raise ValueError("base_url must not end in /openapi/v1, which the client adds")
        if proxy.scheme != "http":
            raise ValueError("proxy must be like http://proxy:3128")
        if re.search("[^!-~]", self.key):
            raise ValueError("key must not have blanks, line breaks or characters outside ASCII")
        if re.search("[^ -~]", self.user_agent):
            raise ValueError("user_agent must be visible ASCII, such as board/2.1")
        if self.timeout <= 0 or self.max_wait <= 0 or self.retries < 0:
            raise ValueError("timeout and max_wait must be more than 0, retries at least 0")
        self.sleep = self.sleep or self._clock
        self._url, self._proxy = url, proxy if self.proxy else None
        self._headers = {"x-api-key": self.key, "user-agent": f"{self.user_agent} marketdata-python/{VERSION}".strip()}

    def _call(self, endpoint: str, result: Any, query: Any, **more: str) -> Steps[Answer[Any]]:
        """Sends a request to an endpoint. Raises TypeError for a parameter that the endpoint does not read."""
        known = QUERIES[endpoint].__annotations__
        for name in query:
            if name not in known:
                raise TypeError(f"{endpoint} takes no {name!r}: it takes {', '.join(known)}")
        values: dict[str, Any] = {**query, **more}
        for name in values.keys() & {"at", "from_", "to", "since"}:
            values[name] = None if values[name] is None else rfc3339(name, values[name])
        if values.get("time") is not None:
            values["time"] = [rfc3339("each of time", t) for t in values["time"]]
        at = values.pop("at", None)
        headers = {"x-snapshot-time": at} if at else {}
        # from_ stands for from, which is a keyword of Python.
        text = {k.rstrip("_"): v if isinstance(v, (str, int)) else ",".join(map(str, v)) or "," for k, v in values.items() if v is not None}
        return self._fetch(Request(f"/openapi/v1/{endpoint}" + ("?" + urlencode(text) if text else ""), headers, result))

    def _fetch(self, request: Request, before: Answer[Any] | None = None) -> Steps[Answer[Any]]:
        headers = request.headers | {"accept-encoding": "gzip"} | ({"if-none-match": before._etag} if before else {})
        attempt = 0
        while True:
            reply = yield Request(request.target, headers)
            try:
                if isinstance(reply, Exception):
                    raise reply
                unchanged = before is not None and reply.status == 304
                result = before.result if before and unchanged else decode(request.result, reply.result())
                break
            except MarketDataError as error:
                yield self._pause(error, attempt)
            attempt += 1
        h = reply.headers
        return Answer(
            result=result, unchanged=unchanged, _etag=h.get("etag", ""), _request=request, limit=limit(h), request_id=h.get("x-request-id"),
            snapshot_time=datetime.fromisoformat(h["x-snapshot-time"]) if "x-snapshot-time" in h else None,
            not_found={name: listed(values) for name, _, values in (f.partition("=") for f in h.get("x-not-found", "").split("&")) if name},
            ignored=listed(h["x-ignored"]) if "x-ignored" in h else [],
        )

    def _pause(self, error: MarketDataError, attempt: int) -> float:
        """Returns the seconds to wait before the next attempt, or raises error if there should be none."""
        wait = jitter(min(BACKOFF * 2 ** min(attempt, 10), self.max_wait))
        if isinstance(error, ApiError):
            if error.status not in RETRIED:
                raise error
            after = error.retry_after or 0
            if after > self.max_wait:
                raise error
            wait += after  # plus a random time, so that not all clients come back at the same time
        if attempt >= self.retries:
            raise error
        return wait


class Events:
    """The state of an event stream across connections."""

    def __init__(self, core: Core) -> None:
        self.core, self.last, self.again, self.attempt = core, "", 2.0, 0

    def request(self) -> Request:
        self.works, self.opened = False, time.monotonic()
        return Request("/openapi/v1/events", {"accept": "text/event-stream"} | ({"last-event-id": self.last} if self.last else {}))

    def line(self, line: bytes) -> tuple[datetime, float] | None:
        """Parses a line. For an event, returns its time and the seconds to wait before yielding it."""
        self.works = self.works or time.monotonic() - self.opened > ALIVE
        name, _, value = line.decode(errors="replace").strip().partition(":")
        value = value.strip()
        if name == "retry" and value.isdecimal():
            self.again = min(int(value) / 1000, self.core.max_wait)
        if name != "id" or value == self.last:
            return None
        wait = random.uniform(0, SPREAD) if self.last else 0.0
        self.last, self.works = value, True
        return datetime.fromisoformat(value), wait

    def pause(self, stream: object) -> float:
        """Returns the seconds to wait before connecting again. stream is the stream that ended, or an error. Raises an
        error if too many streams in a row fail, or end early without an event."""
        if self.works:
            self.attempt = 0
            return jitter(self.again)
        self.attempt += 1
        error = stream if isinstance(stream, MarketDataError) else TransportError("the stream of events ended without one")
        return self.core._pause(error, self.attempt - 1)


def located(name: str, url: str) -> SplitResult:
    """Splits a server's URL, and raises ValueError if it is invalid."""
    parts = urlsplit(url)
    try:
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} must be like https://host or http://127.0.0.1:8080")
    return parts


def rfc3339(name: str, at: object) -> str:
    """Formats a time as the service expects it, without fractional seconds."""
    if not isinstance(at, datetime):
        raise TypeError(f"{name} must be a datetime, such as an answer's snapshot_time, not {at!r}")
    if at.tzinfo is None:
        raise ValueError(f"{name} has no time zone: datetime.now(timezone.utc), not datetime.now()")
    return at.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def method(call: object) -> None:
    """Rejects arguments that pages and rows cannot call, such as "assets" or client.assets()."""
    if not callable(call):
        raise TypeError("the first argument is a method of the client, such as client.assets")


def limit(headers: dict[str, str]) -> RateLimit | None:
    numbers = re.findall(r'";[qr]=(\d+);[wt]=(\d+)$', headers.get("ratelimit-policy", "")) + re.findall(
        r'";[qr]=(\d+);[wt]=(\d+)$', headers.get("ratelimit", "")
    )
    return RateLimit(*map(int, numbers[0] + numbers[1])) if len(numbers) == 2 else None


def listed(values: str) -> list[str]:
    """Parses comma-separated, percent-encoded values."""
    return [unquote(value) for value in values.split(",")]


def jitter(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)


@cache
def hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def decode(kind: Any, value: Any) -> Any:
    """Converts a JSON value to the type kind. Ignores members that kind does not have."""
    origin, arguments = get_origin(kind), get_args(kind)
    if NoneType in arguments:
        return None if value is None else decode(arguments[0], value)
    if origin is list:
        return [decode(arguments[0], v) for v in value]
    if origin is dict:
        return {k: decode(arguments[1], v) for k, v in value.items()}
    if origin is tuple:
        return tuple(decode(k, v) for k, v in zip(arguments, value))
    if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
        return kind(*(decode(k, v) for k, v in zip(hints(kind).values(), value)))
    if is_dataclass(origin or kind):
        types = hints(origin or kind)
        of = {f.name: types[f.name] for f in fields(origin or kind) if f.name in value}
        # In Page[Asset], T of list[T] stands for Asset.
        return (origin or kind)(**{n: decode(t[arguments] if arguments and get_origin(t) is list else t, value[n]) for n, t in of.items()})
    if kind is Decimal:
        return Decimal(value)
    return datetime.fromisoformat(value) if kind is datetime else value
