"""The types of parameters and answers. Money and percentages are Decimal. None means unknown."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Generic, Iterable, Literal, NamedTuple, TypedDict, TypeVar

T = TypeVar("T")


class PinQuery(TypedDict, total=False):
    """at is the time of the snapshot to answer from, such as snapshot_time of an earlier answer."""

    at: datetime | None


class GlobalQuery(PinQuery):
    """The parameters of global_."""


class SearchQuery(PinQuery):
    """The parameters of search besides the words."""


class TrendingQuery(PinQuery, total=False):
    """The parameters of trending."""

    by: Literal["gainers"]


class PagesQuery(PinQuery, total=False):
    """The parameters of every listing. Lists may contain up to 100 values; an empty list matches nothing."""

    id: Iterable[int]
    slug: Iterable[str]
    page: int  # page mode; size up to 100, or up to 20 for history and candles
    size: int
    limit: int  # offset mode
    offset: int


class AssetsQuery(PagesQuery, total=False):
    """The parameters of assets."""

    symbol: Iterable[str]
    sort: str  # id, name, symbol, slug, rank, with :asc or :desc
    fields: Iterable[str]  # links


class QuotesQuery(PagesQuery, total=False):
    """The parameters of quotes."""

    symbol: Iterable[str]
    sort: str  # id, name, symbol, slug, with :asc or :desc


class MarketsQuery(PagesQuery, total=False):
    """The parameters of markets."""

    symbol: Iterable[str]
    category: Iterable[str]  # slugs
    chain: Iterable[str]
    sort: str  # rank, market_cap:desc, percent_change.24h:desc, …
    fields: Iterable[str]  # groups


class ExchangesQuery(PagesQuery, total=False):
    """The parameters of exchanges."""

    sort: str  # id, name, slug, volume, with :asc or :desc


class CategoriesQuery(PagesQuery, total=False):
    """The parameters of categories."""

    sort: str  # id, name, slug, market_cap, volume_24h, with :asc or :desc


class ChainsQuery(CategoriesQuery):
    """The parameters of chains."""


class HistoryQuery(PagesQuery, total=False):
    """The parameters of history. One of id, slug and symbol is required."""

    symbol: Iterable[str]
    window: str  # 24h, 7d, 30d, 90d, 1y, max; default 7d


class CandlesQuery(PagesQuery, total=False):
    """The parameters of candles. One of id, slug and symbol is required."""

    symbol: Iterable[str]
    interval: Literal["1h", "1d"]  # default 1h
    from_: datetime  # range in which candles begin, inclusive; default: the newest 168 hours or 365 days
    to: datetime


class PricesQuery(PagesQuery, total=False):
    """The parameters of prices. time and one of id, slug and symbol are required."""

    symbol: Iterable[str]
    time: Iterable[datetime]  # up to 100; their number times the number of assets on a page is at most 1,000


class ChangesQuery(PinQuery, total=False):
    """The parameters of changes."""

    since: datetime  # only changes of later snapshots; default: all available changes
    collection: Iterable[Literal["assets", "categories", "chains", "exchanges"]]
    kind: Iterable[Literal["added", "back", "changed", "removed"]]
    page: int  # page mode; size up to 100
    size: int
    limit: int  # offset mode
    offset: int


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing. total is the number of matching rows in the answer's snapshot."""

    items: list[T]
    page: int
    total: int
    total_page: int
    since: datetime | None = None  # the oldest time from which the changes are complete; for changes only


@dataclass(frozen=True)
class Items(Generic[T]):
    """A result without pages."""

    items: list[T]


@dataclass(frozen=True)
class Asset:
    """An entry of the directory. Unrelated assets may share a symbol, so join by id."""

    id: int
    name: str
    symbol: str
    slug: str
    logo: str
    explorers: list[str]
    rank: int | None = None  # by market cap, from 1
    links: dict[str, str] | None = None  # with fields=["links"] only


@dataclass(frozen=True)
class Quote:
    """An asset's market data, in US dollars. volume is the volume over 24 hours."""

    id: int
    name: str
    symbol: str
    slug: str
    logo: str
    price: Decimal
    market_cap: Decimal | None
    volume: Decimal
    percent_change: dict[str, Decimal]  # by window: 1h, 6h, 12h, 24h, 7d, 30d, 90d, 1y
    # The time from which changes over longer windows are measured; None if a whole year is covered.
    since: datetime | None = None


@dataclass(frozen=True)
class Market(Quote):
    """A quote with its asset's rank."""

    rank: int | None = None  # by market cap, from 1
    groups: dict[str, list[str]] | None = None  # slugs of categories and chains, with fields=["groups"] only


@dataclass(frozen=True)
class Fees:
    """An exchange's fees, in percent."""

    maker: Decimal
    taker: Decimal


@dataclass(frozen=True)
class ExchangeMarket:
    """An exchange's 24-hour aggregate."""

    volume_24h: Decimal | None
    markets_count: int | None
    coins_count: int | None
    data_time: datetime | None


@dataclass(frozen=True)
class Exchange:
    """A trading venue. Slugs of exchanges are not unique."""

    id: int
    name: str
    slug: str
    logo: str
    links: dict[str, str]
    fees: Fees
    market: ExchangeMarket | None


@dataclass(frozen=True)
class File:
    """A file that contains a whole collection. url is its path; the file at this path never changes."""

    name: str
    bytes: int
    rows: int
    sha256: str
    media_type: str
    url: str


@dataclass(frozen=True)
class Files:
    """The files of a snapshot. time is the time of the snapshot, or None if there are no files."""

    time: datetime | None
    items: list[File]


@dataclass(frozen=True)
class Notice:
    """A remark about all data in a snapshot. Show it together with the data."""

    text: str
    url: str


@dataclass(frozen=True)
class Global:
    """Totals over active assets with a known market cap."""

    total_market_cap: Decimal
    total_volume_24h: Decimal
    total_market_cap_change_percentage_24h: Decimal | None
    data_time: datetime
    notice: Notice | None = None


@dataclass(frozen=True)
class Gainer:
    """One of a group's coins."""

    id: int
    symbol: str
    name: str
    slug: str
    logo: str


@dataclass(frozen=True)
class GroupMarket:
    """The aggregate over a group's coins. market_cap_share, from 0 to 1, is the group's share of the sum over all
    groups. A coin counts once for each of its groups."""

    market_cap: Decimal
    volume_24h: Decimal
    coins_count: int
    market_cap_share: Decimal
    snapshot_time: datetime
    top_gainers: list[Gainer]


@dataclass(frozen=True)
class Category:
    """A group of assets."""

    id: int
    name: str
    slug: str
    market: GroupMarket


@dataclass(frozen=True)
class Chain:
    """A blockchain with the assets on it."""

    id: int
    name: str
    display_name: str
    slug: str
    evm_chain_id: int | None  # EIP-155
    logo: str
    market: GroupMarket


@dataclass(frozen=True)
class History:
    """An asset's prices in a window, oldest point first."""

    id: int
    name: str
    symbol: str
    slug: str
    window: str
    interval: str
    points: list[tuple[datetime, Decimal]]


class Candle(NamedTuple):
    """An hour or day that begins at time. market_cap and volume come from its last snapshot."""

    time: datetime
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    market_cap: Decimal | None
    volume: Decimal | None


@dataclass(frozen=True)
class CandleSeries:
    """An asset's candles, oldest first."""

    id: int
    name: str
    symbol: str
    slug: str
    interval: str
    candles: list[Candle]


@dataclass(frozen=True)
class PriceAt:
    """An asset's price at time, taken from the snapshot of snapshot_time. Other fields are None if the service has no data."""

    time: datetime
    snapshot_time: datetime | None
    price: Decimal | None
    market_cap: Decimal | None
    volume: Decimal | None


@dataclass(frozen=True)
class PriceSeries:
    """An asset's prices, in the order of the requested times."""

    id: int
    name: str
    symbol: str
    slug: str
    prices: list[PriceAt]


@dataclass(frozen=True)
class ChangedField:
    """The old and new values of a field. They are None if the service does not state them; in that case, read the item again."""

    old: str | None = None
    new: str | None = None


@dataclass(frozen=True)
class Change:
    """A change of a directory item. name, symbol and slug have their values after the change or, for a removed item,
    their last values."""

    time: datetime  # of the snapshot that shows the change
    collection: str  # assets, categories, chains, exchanges
    kind: str  # added, back, changed, removed
    id: int
    name: str
    slug: str
    symbol: str | None = None  # of assets only
    fields: dict[str, ChangedField] | None = None  # the changed fields by name; only for the kind changed


@dataclass(frozen=True)
class Entry:
    """A directory item with the fields that changes covers. It has no figures, since those change with every snapshot."""

    id: int
    name: str
    slug: str
    symbol: str | None = None  # of assets only
    logo: str | None = None  # except for categories
    explorers: list[str] | None = None  # of assets only
    links: dict[str, str] | None = None  # of assets and exchanges only
