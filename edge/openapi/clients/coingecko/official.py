"""Calls the endpoints that COINGECKO.md lists with CoinGecko's own client, and prints each answer as a line of JSON.

The client checks each answer against its types.
"""

import datetime
import json
import sys

from coingecko_sdk import Coingecko

base, key, coin, name, symbol, category, platform, address = sys.argv[1:]
client = Coingecko(base_url=base, demo_api_key=key, max_retries=0, _strict_response_validation=True)
coins, simple = client.coins, client.simple
usd_eur = dict(vs_currencies="usd,eur")
figures = dict(usd_eur, include_market_cap=True, include_24hr_vol=True, include_24hr_change=True,
               include_last_updated_at=True, precision="full")
chart = dict(vs_currency="eur", days="7", interval="daily", precision="2")
span = dict(vs_currency="usd", from_="2026-11-19", to="2026-11-20T18:30", interval="hourly",
            precision="18")


def plain(value):
    """Converts a model, or a time in one, to the form that the edge writes."""
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.to_dict()


for call in (
    lambda: client.ping.get(),
    lambda: simple.price.get(ids=coin, **figures),
    lambda: simple.price.get(names=name, **usd_eur),
    lambda: simple.price.get(symbols=symbol, include_tokens="all", **usd_eur),
    lambda: simple.token_price.get_id(platform, contract_addresses=address, **figures),
    lambda: simple.supported_vs_currencies.get(),
    lambda: client.exchange_rates.get(),
    lambda: client.asset_platforms.get(),
    lambda: coins.list.get(include_platform=True),
    lambda: coins.markets.get(vs_currency="eur", order="volume_desc", per_page=50, page=2, sparkline=True,
                              precision="4", price_change_percentage="1h,24h,7d,14d,30d,200d,1y"),
    lambda: coins.markets.get(vs_currency="usd", ids=coin),
    lambda: coins.markets.get(vs_currency="usd", names=name),
    lambda: coins.markets.get(vs_currency="usd", symbols=symbol, include_tokens="all"),
    lambda: coins.markets.get(vs_currency="usd", category=category),
    lambda: coins.get_id(coin, market_data=True, sparkline=True, include_categories_details=True),
    lambda: coins.market_chart.get(coin, **chart),
    lambda: coins.market_chart.get_range(coin, **span),
    lambda: coins.ohlc.get(coin, vs_currency="usd", days="7", interval="hourly", precision="full"),
    lambda: coins.ohlc.get_range(coin, vs_currency="usd", from_="2026-11-19", to="2026-11-20", interval="daily"),
    lambda: coins.history.get(coin, date="2026-11-20"),
    lambda: coins.contract.get(address, id=platform),
    lambda: coins.contract.market_chart.get(address, id=platform, **chart),
    lambda: coins.contract.market_chart.get_range(address, id=platform, **span),
    lambda: coins.categories.get(order="name_asc"),
    lambda: coins.categories.get_list(),
    lambda: client.exchanges.get(per_page=5, page=2),
    lambda: client.exchanges.get_list(),
    lambda: client.search.get(query="co"),
    lambda: client.search.trending.get(),
    lambda: client.global_.get(),
):
    print(json.dumps(call(), default=plain))
