"""What both clients share: requests, retries, headers and answers, without input or
output. Its generators yield what is to be done and are sent what came of it."""

import json
import random
import re
import zlib
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Any, Generator, Generic, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import unquote, urlencode

from .types import Query

T = TypeVar("T")
MAX_BODY = 16 << 20  # bytes of an answer; a page of 100 rows is far below
SILENCE = 45.0  # seconds after which a stream of events is taken for dead: it has a line every 15 s
SPREAD = 3.0  # seconds over which clients spread what they ask after an event
RETRIED = {408, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class RateLimit:
    """The bucket that a request was counted under: quota requests at once, all of them
    available again after window seconds; remaining are left, and full after reset seconds."""

    quota: int
    window: int
    remaining: int
    reset: int


class MarketDataError(Exception):
    """Whatever goes wrong between this client and the service."""


class TransportError(MarketDataError):
    """No whole answer of the service arrived."""


@dataclass(eq=False)
class ApiError(MarketDataError):
    """An answer that is no success. Branch on message_key, or catch one of the subclasses."""

    status: int
    code: int  # of the envelope; 0 when something in between answered
    message_key: str  # likewise ""
    message: str  # for people
    retry_after: int | None
    limit: RateLimit | None
    request_id: str | None

    def __str__(self) -> str:
        return f"{self.status} {self.message_key}: {self.message} (request {self.request_id})"


class BadRequest(ApiError):
    """A parameter or the snapshot's time is invalid; message names it."""


class Unauthorized(ApiError):
    """No valid key."""


class NotFound(ApiError):
    """global_ before the first snapshot."""


class SnapshotGone(ApiError):
    """The snapshot that was asked for is no longer retained: begin the listing again."""


class TooManyRequests(ApiError):
    """Over the rate limit."""


class ServiceUnavailable(ApiError):
    """What the answer needs is unavailable."""


ERRORS: dict[str, type[ApiError]] = {
    "BAD_REQUEST": BadRequest,
    "UNAUTHORIZED": Unauthorized,
    "NOT_FOUND": NotFound,
    "SNAPSHOT_GONE": SnapshotGone,
    "TOO_MANY_REQUESTS": TooManyRequests,
    "SERVICE_UNAVAILABLE": ServiceUnavailable,
}


@dataclass(frozen=True)
class Request:
    """A GET, and the type of the result that it asks for."""

    target: str
    headers: dict[str, str]
    result: Any = None


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A result and what the headers say of it."""

    result: T
    snapshot_time: datetime | None  # of the snapshot that answered; None before the first one
    not_found: dict[str, list[str]]  # values of a filter (id, slug, …) that match nothing
    ignored: list[str]  # names of parameters that had no part in the answer
    limit: RateLimit | None
    request_id: str | None
    unchanged: bool  # refresh: the service says that result is still what it was
    etag: str = field(repr=False)
    request: Request = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """An HTTP answer; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def result(self) -> Any:
        """The envelope's result; raises what the answer says otherwise."""
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
        raise ERRORS.get(key, ApiError)(
            self.status, envelope.get("code", 0), key, envelope.get("message", ""),
            int(after) if re.fullmatch("[0-9]{1,9}", after) else None, limit(self.headers), self.headers.get("x-request-id"),
        )


# What a generator asks for: a Request, for which it is sent a Reply or the error;
# a number of seconds to wait.
Steps = Generator[Request | float, Any, T]


@dataclass
class Core:
    """Base is "https://host", without /openapi/v1. Timeout (seconds) is that of each wait for
    the network, retries how many attempts follow the first one. An error whose Retry-After is
    longer than max_wait seconds is raised at once."""

    base: str
    key: str = field(repr=False)
    timeout: float = 10.0
    retries: int = 3
    max_wait: float = 30.0

    def ask(self, endpoint: str, result: Any, query: Query, **more: str) -> Steps[Answer[Any]]:
        values: dict[str, Any] = {**query, **more}
        at = values.pop("at", None)
        headers = {"x-snapshot-time": at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")} if at else {}
        text = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in values.items() if v is not None}
        return self.fetch(Request(f"/openapi/v1/{endpoint}" + ("?" + urlencode(text) if text else ""), headers, result))

    def fetch(self, request: Request, before: Answer[Any] | None = None) -> Steps[Answer[Any]]:
        headers = request.headers | {"accept-encoding": "gzip"} | ({"if-none-match": before.etag} if before else {})
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
                yield self.pause(error, attempt)
            attempt += 1
        h = reply.headers
        return Answer(
            result=result, unchanged=unchanged, etag=h.get("etag", ""), request=request, limit=limit(h), request_id=h.get("x-request-id"),
            snapshot_time=datetime.fromisoformat(h["x-snapshot-time"]) if "x-snapshot-time" in h else None,
            not_found={name: listed(values) for name, _, values in (f.partition("=") for f in h.get("x-not-found", "").split("&")) if name},
            ignored=listed(h["x-ignored"]) if "x-ignored" in h else [],
        )

    def pause(self, error: MarketDataError, attempt: int) -> float:
        """Seconds to wait before the attempt after this one; raises error when there should be none."""
        wait = jitter(0.25 * 2 ** min(attempt, 10))
        if isinstance(error, ApiError):
            if error.status not in RETRIED:
                raise error
            wait = error.retry_after or wait
        if attempt >= self.retries or wait > self.max_wait:
            raise error
        return wait


class Events:
    """The state of a stream of events over its connections."""

    def __init__(self, core: Core) -> None:
        self.core, self.last, self.again, self.attempt = core, "", 2.0, 0

    def request(self) -> Request:
        return Request("/openapi/v1/events", {"accept": "text/event-stream"} | ({"last-event-id": self.last} if self.last else {}))

    def line(self, line: bytes) -> tuple[datetime, float] | None:
        """Reads a line: for an event its time, and how long to wait before passing it on."""
        self.attempt = 0
        name, _, value = line.decode(errors="replace").strip().partition(":")
        value = value.strip()
        if name == "retry" and value.isdecimal():
            self.again = min(int(value) / 1000, self.core.max_wait)
        if name != "id" or value == self.last:
            return None
        wait = random.uniform(0, SPREAD) if self.last else 0.0
        self.last = value
        return datetime.fromisoformat(value), wait

    def pause(self, stream: object) -> float:
        """Seconds to wait before connecting again: the stream has ended, or is an error."""
        self.attempt += 1
        return self.core.pause(stream, self.attempt - 1) if isinstance(stream, MarketDataError) else jitter(self.again)


def limit(headers: dict[str, str]) -> RateLimit | None:
    numbers = re.findall(r'";[qr]=(\d+);[wt]=(\d+)$', headers.get("ratelimit-policy", "")) + re.findall(
        r'";[qr]=(\d+);[wt]=(\d+)$', headers.get("ratelimit", "")
    )
    return RateLimit(*map(int, numbers[0] + numbers[1])) if len(numbers) == 2 else None


def listed(values: str) -> list[str]:
    """Reads percent-encoded values with commas between."""
    return [unquote(value) for value in values.split(",")]


def jitter(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)


@cache
def hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def decode(kind: Any, value: Any) -> Any:
    """Makes a value of JSON one of kind. Fields that kind does not have are left out."""
    origin, arguments = get_origin(kind), get_args(kind)
    if NoneType in arguments:
        return None if value is None else decode(arguments[0], value)
    if origin is list:
        return [decode(arguments[0], v) for v in value]
    if origin is dict:
        return {k: decode(arguments[1], v) for k, v in value.items()}
    if origin is tuple:
        return tuple(decode(k, v) for k, v in zip(arguments, value))
    if is_dataclass(origin or kind):
        types = hints(origin or kind)
        of = {f.name: types[f.name] for f in fields(origin or kind) if f.name in value}
        # Page[Asset] has list[T], T standing for Asset.
        return (origin or kind)(**{n: decode(t[arguments] if arguments and get_origin(t) is list else t, value[n]) for n, t in of.items()})
    if kind is Decimal:
        return Decimal(value)
    return datetime.fromisoformat(value) if kind is datetime else value
