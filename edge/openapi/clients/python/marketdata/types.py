"""The service's answers. Money and percentages are Decimal; None is unknown."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Generic, Iterable, Literal, NamedTuple, TypedDict, TypeVar

T = TypeVar("T")


class PinQuery(TypedDict, total=False):
    """at is the snapshot to answer from, such as snapshot_time of an earlier answer."""

    at: datetime | None


class GlobalQuery(PinQuery):
    """The parameters of global_."""


class SearchQuery(PinQuery):
    """The parameters of search beside the words."""


class TrendingQuery(PinQuery, total=False):
    """The parameters of trending."""

    by: Literal["gainers"]


class PagesQuery(PinQuery, total=False):
    """The parameters of every listing. Lists have up to 100 values; an empty one matches nothing."""

    id: Iterable[int]
    slug: Iterable[str]
    page: int  # page mode; size up to 100, of history and candles up to 20
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
    window: str  # 24h, 7d, 30d, 90d, 1y, max; 7d unless given


class CandlesQuery(PagesQuery, total=False):
    """The parameters of candles. One of id, slug and symbol is required."""

    symbol: Iterable[str]
    interval: Literal["1h", "1d"]  # 1h unless given
    from_: datetime  # when candles begin, both included; the newest 168 hours or 365 days unless given
    to: datetime


class PricesQuery(PagesQuery, total=False):
    """The parameters of prices. time, and one of id, slug and symbol, is required."""

    symbol: Iterable[str]
    time: Iterable[datetime]  # up to 100; with the assets of a page up to 1,000 prices


class ChangesQuery(PinQuery, total=False):
    """The parameters of changes."""

    since: datetime  # changes of later snapshots only; all that are held unless given
    collection: Iterable[Literal["assets", "categories", "chains", "exchanges"]]
    kind: Iterable[Literal["added", "back", "changed", "removed"]]
    page: int  # page mode; size up to 100
    size: int
    limit: int  # offset mode
    offset: int


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing; total are the rows that match in the snapshot that answered."""

    items: list[T]
    page: int
    total: int
    total_page: int
    since: datetime | None = None  # of changes alone: the oldest time from which the changes are complete


@dataclass(frozen=True)
class Items(Generic[T]):
    """A result without pages."""

    items: list[T]


@dataclass(frozen=True)
class Asset:
    """An entry of the directory. Symbols are shared by unrelated assets: join by id."""

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
    """An asset's market data, in US dollars; volume is of 24 hours."""

    id: int
    name: str
    symbol: str
    slug: str
    logo: str
    price: Decimal
    market_cap: Decimal | None
    volume: Decimal
    percent_change: dict[str, Decimal]  # by window: 1h, 6h, 12h, 24h, 7d, 30d, 90d, 1y
    # From when changes over longer windows count; None where a whole year is covered.
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
    """A whole collection as a file; url is its path, where it never changes."""

    name: str
    bytes: int
    rows: int
    sha256: str
    media_type: str
    url: str


@dataclass(frozen=True)
class Files:
    """The files of the snapshot of a time; None when there are none."""

    time: datetime | None
    items: list[File]


@dataclass(frozen=True)
class Notice:
    """A remark on all data of a snapshot: show it with the data."""

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
    """A coin of a group."""

    id: int
    symbol: str
    name: str
    slug: str
    logo: str


@dataclass(frozen=True)
class GroupMarket:
    """The aggregate over a group's coins. market_cap_share, 0 to 1, is a part of the sum
    over all groups, in which a coin counts once for each group."""

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
    """The course of an asset's price in a window, oldest point first."""

    id: int
    name: str
    symbol: str
    slug: str
    window: str
    interval: str
    points: list[tuple[datetime, Decimal]]


class Candle(NamedTuple):
    """An hour or day that begins at time. market_cap and volume are those of its last snapshot."""

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
    """What an asset was worth at time, by the snapshot of snapshot_time; None where the service had no data."""

    time: datetime
    snapshot_time: datetime | None
    price: Decimal | None
    market_cap: Decimal | None
    volume: Decimal | None


@dataclass(frozen=True)
class PriceSeries:
    """An asset's prices, in the order of the times that were asked for."""

    id: int
    name: str
    symbol: str
    slug: str
    prices: list[PriceAt]


@dataclass(frozen=True)
class ChangedField:
    """The old and the new value of a field, None where the service does not tell them: read the item again."""

    old: str | None = None
    new: str | None = None


@dataclass(frozen=True)
class Change:
    """A change of an item of the directory. name, symbol and slug are as the change left them; those of a removed
    item are as they were."""

    time: datetime  # of the snapshot that shows the change
    collection: str  # assets, categories, chains, exchanges
    kind: str  # added, back, changed, removed
    id: int
    name: str
    slug: str
    symbol: str | None = None  # of assets only
    fields: dict[str, ChangedField] | None = None  # of the kind changed only, by name


@dataclass(frozen=True)
class Entry:
    """An item of the directory as changes follows it, without figures, which change with every snapshot."""

    id: int
    name: str
    slug: str
    symbol: str | None = None  # of assets only
    logo: str | None = None  # of all but categories
    explorers: list[str] | None = None  # of assets only
    links: dict[str, str] | None = None  # of assets and exchanges only
