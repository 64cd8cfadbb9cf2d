"""Calls the endpoints that COINGECKO.md lists with pycoingecko, and prints each answer as a line of JSON."""

import json
import sys

from pycoingecko import CoinGeckoAPI

base, key, coin, name, symbol, category, platform, address = sys.argv[1:]
client = CoinGeckoAPI(demo_api_key=key)
client.api_base_url = base + "/"
figures = dict(include_market_cap=True, include_24hr_vol=True, include_24hr_change=True, include_last_updated_at=True,
               precision="full")
chart = dict(vs_currency="eur", days=7, interval="daily", precision=2)
span = dict(vs_currency="usd", from_timestamp=1795046400, to_timestamp=1795199400, interval="hourly",
            precision=18)

for call in (
    lambda: client.ping(),
    lambda: client.get_price(ids=[coin], vs_currencies=["usd", "eur"], **figures),
    lambda: client.get_price(ids="", vs_currencies="usd", names=name),
    lambda: client.get_price(ids="", vs_currencies="usd", symbols=symbol, include_tokens="all"),
    lambda: client.get_token_price(platform, [address], ["usd", "eur"], **figures),
    lambda: client.get_supported_vs_currencies(),
    lambda: client.get_exchange_rates(),
    lambda: client.get_asset_platforms(),
    lambda: client.get_coins_list(include_platform=True),
    lambda: client.get_coins_markets("eur", order="volume_desc", per_page=50, page=2, sparkline=True, precision=4,
                                     price_change_percentage=["1h", "24h", "7d", "14d", "30d", "200d", "1y"]),
    lambda: client.get_coins_markets("usd", ids=[coin]),
    lambda: client.get_coins_markets("usd", names=[name]),
    lambda: client.get_coins_markets("usd", symbols=[symbol], include_tokens="all"),
    lambda: client.get_coins_markets("usd", category=category),
    lambda: client.get_coin_by_id(coin, market_data=True, sparkline=True, include_categories_details=True),
    lambda: client.get_coin_market_chart_by_id(coin, **chart),
    lambda: client.get_coin_market_chart_range_by_id(coin, **span),
    lambda: client.get_coin_ohlc_by_id(coin, "usd", 7, interval="hourly", precision="full"),
    lambda: client.get_coin_ohlc_by_id_range(coin, "usd", 1795046400, 1795132800, "daily"),
    lambda: client.get_coin_history_by_id(coin, "20-11-2026"),
    lambda: client.get_coin_info_from_contract_address_by_id(platform, address),
    lambda: client.get_coin_market_chart_from_contract_address_by_id(platform, address, **chart),
    lambda: client.get_coin_market_chart_range_from_contract_address_by_id(platform, address, **span),
    lambda: client.get_coins_categories(order="name_asc"),
    lambda: client.get_coins_categories_list(),
    lambda: client.get_exchanges_list(per_page=5, page=2),
    lambda: client.get_exchanges_id_name_list(),
    lambda: client.search("co"),
    lambda: client.get_search_trending(),
    lambda: {"data": client.get_global()},
):
    print(json.dumps(call()))
