// The page of one asset, exchange, category or chain.
"use strict";

// detailOf identifies the detail page that a URL asks for, without its window and chart.
const detailOf = (now) => now.kind + " " + JSON.stringify(now.filter);
const viewOf = (kind) => Object.keys(views).find((view) => views[view].kind === kind);

// askDetail asks for what a detail page shows, except for the chart and the listing of coins.
async function askDetail(now, at, signal) {
  const first = async (path, parameters) => (await ask(path, { ...now.filter, ...parameters }, at, signal)).result.items[0];
  if (now.kind === "exchange") {
    const [row, largest] = await Promise.all([first("exchanges"), ask("exchanges", { sort: "volume:desc", size: 100 }, at, signal)]);
    return { row, largest: largest.result, signal };
  }
  if (now.kind !== "asset") return { row: await first(viewOf(now.kind)), signal };
  const day = first("history", { window: "24h" }).then((item) => item?.points ?? [], () => []); // the page does not wait for it
  const [row, quote] = await Promise.all([first("assets", { fields: "links" }), first("markets", { fields: "groups" }).catch((problem) => {
    if (problem.status !== 503) throw problem;
    return first("quotes"); // the snapshot of an older builder has no markets
  })]);
  const [groups, coin] = await Promise.all([quote?.groups && askGroups(quote.groups, at, signal).catch(() => null), row && askCoin(row.slug, at, signal).catch(() => null)]);
  return { row, quote, day, signal, groups, coin };
}

// askCoin asks the CoinGecko-compatible API for what the board's own API lacks: supplies, contracts and other
// currencies. Numbers become strings with all of their digits. askCoin returns null if that API is not served.
async function askCoin(slug, at, signal) {
  if (document.querySelector("meta[name=coins]").content !== "on") return null;
  const response = await send("/api/v3/coins/" + encodeURIComponent(slug), { "X-Snapshot-Time": at }, signal, "no-cache");
  return JSON.parse(await response.text(), (name, value, context) => (typeof value === "number" ? plainNumber(context?.source ?? String(value)) : value));
}

// askGroups asks for the groups with the given slugs, the largest first. It leaves out slugs with a comma, and
// all slugs after the first hundred, because filters do not accept them.
async function askGroups(slugs, at, signal) {
  const answers = await Promise.all(["categories", "chains"].map(async (view) => {
    const slug = slugs[view].filter((slug) => !slug.includes(",")).slice(0, 100).join(",");
    return slug ? (await ask(view, { slug, size: 100 }, at, signal)).result.items.map((group) => ({ kind: views[view].kind, group })) : [];
  }));
  return answers.flat();
}

const entry = (title, value) => element("div", {}, element("dt", {}, title), element("dd", {}, value));
const headed = (row, ...name) => element("h2", { id: "detail-name", tabindex: "-1", ...(row && { title: row.slug }) }, ...name);

function showDetailSkeleton(now) {
  drawn.detail = "";
  $("chart-of").hidden = now.kind !== "asset";
  $("detail-parts").hidden = false;
  $("detail-head").replaceChildren(headed(null, bar()), ...(now.kind === "asset" ? [element("p", { class: "price" }, bar())] : []));
  clearChart(element("div", { class: "skeleton" }));
  $("facts").replaceChildren(...Array.from({ length: 5 }, () => entry(bar(), bar())));
  for (const list of [$("links"), $("groups")]) list.replaceChildren(element("li", {}, bar()));
  $("windows").replaceChildren();
  $("styles").replaceChildren();
  $("links-none").hidden = $("groups-none").hidden = true;
}

function showDetail(now, { row, quote, day, groups, coin, largest, signal }, newer) {
  const before = newer && drawn.detail === detailOf(now) && $("detail-head").querySelector(".price");
  drawn.detail = detailOf(now);
  opened = row ? pageOf(row, now.kind) : "";
  const from = listing ?? { view: viewOf(now.kind), address: "?view=" + viewOf(now.kind) };
  $("back").setAttribute("href", from.address);
  $("back").textContent = "All " + from.view;
  $("detail-parts").hidden = !row;
  if (!row) $("listing").hidden = true;
  if (row) {
    document.title = row.name + (row.symbol ? " (" + row.symbol + ")" : "") + " \u00b7 Market board";
    const called = element("div", { class: "coin" }, mark(row), headed(row, row.name));
    if (row.symbol) called.append(element("span", { class: "symbol" }, row.symbol));
    $("detail-head").replaceChildren(called);
    $("chart-of").hidden = now.kind !== "asset";
    showList("contracts");
    showList("currencies");
    showList("near");
    showParts[now.kind](row, now, { quote, day, groups, coin: coin?.market_data && coin, largest });
    if (before) tint($("detail-head").querySelector(".price"), before);
    if (now.kind === "asset") showChart(row, now, quote?.percent_change[now.window], signal);
    else clearChart();
  } else {
    document.title = "No such " + now.kind + " \u00b7 Market board";
    clearChart();
    $("detail-head").replaceChildren(headed(null, "No " + now.kind + " is listed at this address."));
  }
  if (came) $("detail-name").focus({ preventScroll: true });
  came = false;
}

const showParts = {
  asset(asset, now, { quote, day, groups, coin }) {
    $("detail-head").firstChild.append(star(asset, "star"));
    $("detail-head").append(element("p", { class: "price" }, exact(quote?.price, price), " ", overWindow(quote, "24h")));
    const range = $("facts").querySelector("[data-of='" + asset.id + "']") ?? element("div", { hidden: "", "data-of": asset.id });
    day.then((points) => {
      if (quote && points.length > 1) range.replaceChildren(...entry("Range 24 h", between(points, quote.price)).childNodes), (range.hidden = false);
    });
    $("facts").replaceChildren(
      entry("Rank", asset.rank ? String(asset.rank) : nothing()),
      entry("Market cap", exact(quote?.market_cap, money)),
      entry("Volume 24 h", volume(quote?.volume)),
      ...(coin ? supplies(coin.market_data, asset.symbol) : []),
      ...["1h", "6h", "12h"].map((window) => entry(window.replace(/\D/, " $&"), overWindow(quote, window, true))),
      range,
    );
    if (coin) {
      const contracts = Object.entries(coin.platforms).filter(([chain, address]) => chain && address);
      if (contracts.length > 0) showList("contracts", contracts.map(([chain, address]) => [element("span", { class: "soft" }, chain), " ", element("code", {}, address), " ", copier(address)]));
      const prices = currencies.filter((code) => coin.market_data.current_price[code] != null && code !== asset.symbol.toLowerCase());
      if (prices.length > 0) showList("currencies", prices.map((code) => [element("span", { class: "soft" }, code.toUpperCase()), " ", exact(coin.market_data.current_price[code], (text) => price(text).slice(1))]));
    }
    showList("links", [
      ...linked([["Website", asset.links.website], ["Whitepaper", asset.links.whitepaper]]),
      ...asset.explorers.map((url) => [outward(url), " ", element("span", { class: "soft" }, "explorer")]),
    ], "None known.");
    showList("groups", (groups ?? []).map(({ kind, group }) => [element("a", { href: pageOf(group, kind) }, group.name), " ", element("span", { class: "soft" }, kind)]),
      groups || !quote ? "None." : "They could not be loaded.");
    $("windows").replaceChildren(
      ...Object.keys(windows).map((window) => element("a", { href: pageOf(asset, "asset", window, now.chart), ...(window === now.window && { "aria-current": "true" }) }, window, ...(hours[window] ? [overWindow(quote, window, window === now.window)] : []))),
    );
    $("styles").replaceChildren(...[["line", "Line"], ["candles", "Candles"]].map(([chart, title]) =>
      element("a", { href: pageOf(asset, "asset", now.window, chart), ...(chart === now.chart && { "aria-current": "true" }) }, title)));
    showDated(asset);
  },
  exchange({ id, market, fees, links }, now, { largest }) {
    const at = market?.volume_24h ? largest.items.findIndex((row) => row.id === id) : -1;
    $("facts").replaceChildren(
      ...(at < 0 ? [] : [entry("By volume", "#" + (at + 1) + " of " + grouped(String(largest.total)))]),
      entry("Volume 24 h", exact(market?.volume_24h, money)),
      entry("Markets", count(market?.markets_count)),
      entry("Coins", count(market?.coins_count)),
      entry("Maker fee", fee(fees.maker)),
      entry("Taker fee", fee(fees.taker)),
      entry("As of", timed(market?.data_time)),
    );
    showList("links", linked(Object.entries(links).map(([name, url]) => [name[0].toUpperCase() + name.slice(1), url])), "None known.");
    showList("groups");
    const near = largest.items.slice(Math.max(at - 3, 0), at + 4).filter((row) => row.id !== id && row.market?.volume_24h);
    if (at >= 0 && near.length > 0) showList("near", near.map((row) => [element("a", { href: pageOf(row, "exchange") }, row.name), " ", element("span", { class: "soft" }, money(row.market.volume_24h))]));
  },
  category: showGroup,
  chain: showGroup,
};

// currencies are the currencies in which the page of an asset gives the price, if they have rates.
const currencies = ["eur", "gbp", "jpy", "cny", "inr", "btc", "eth"];

function supplies(market, symbol) {
  const coins = (number) => exact(number, (text) => large(text) + "\u00a0" + symbol);
  return [
    ["Fully diluted", market.fully_diluted_valuation?.usd, (number) => exact(number, money)], ["Circulating", market.circulating_supply, coins],
    ["Total supply", market.total_supply, coins], ["Max supply", market.max_supply, coins],
  ].filter(([, number]) => number != null).map(([title, number, shown]) => entry(title, shown(number)));
}

// between shows the lowest and the highest price of some points, and where the price now is between them.
function between(points, now) {
  const prices = [...points.map(([, price]) => price), now];
  const low = prices.reduce((a, b) => (less(b, a) ? b : a)), high = prices.reduce((a, b) => (less(a, b) ? b : a));
  const mark = element("i");
  mark.style.left = (less(low, high) ? (100 * (now - low)) / (high - low) : 50) + "%"; // a float is precise enough for a mark
  const shown = price(low) === price(high) ? (text) => "$" + text : price; // rounded, the two ends would look alike, as with stablecoins
  return element("span", { class: "between" }, exact(low, shown), element("i", { "aria-hidden": "true" }, mark), exact(high, shown));
}

function copier(text) {
  const button = element("button", { type: "button", class: "copy", "aria-label": "Copy " + text }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text).then(() => (button.textContent = "Copied"), () => getSelection().selectAllChildren(button.previousElementSibling));
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}

function showGroup(group, now) {
  const { market } = group;
  $("facts").replaceChildren(
    entry("Market cap", exact(market.market_cap, money)),
    entry("Share of all " + viewOf(now.kind), exact(market.market_cap_share, share)),
    entry("Volume 24 h", volume(market.volume_24h)),
    entry("Coins", count(market.coins_count)),
    ...(group.evm_chain_id == null ? [] : [entry("EVM chain id", String(group.evm_chain_id))]),
  );
  showList("links");
  showList("groups");
}

// showList fills a list of the page, or hides the list's part of the page if items is missing.
function showList(id, items, none) {
  $(id).parentElement.hidden = !items;
  $(id).replaceChildren(...(items ?? []).map((item) => element("li", {}, ...item)));
  $(id + "-none").textContent = none ?? "";
  $(id + "-none").hidden = items?.length > 0;
}

const linked = (links) => links.filter(([, url]) => url).map(([title, url]) => [outward(url, title)]);

// outward creates a link to a URL from a feed, or only text if the URL does not lead to the web.
function outward(url, title) {
  const to = URL.canParse(url) ? new URL(url) : { protocol: "" };
  if (!/^https?:$/.test(to.protocol)) return element("span", { class: "soft" }, title ?? url);
  return element("a", { href: to.href, title: to.href, rel: "noopener noreferrer nofollow ugc" }, title ?? to.host);
}
