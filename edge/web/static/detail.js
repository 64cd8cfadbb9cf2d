// The page of one asset, exchange, category or chain.
"use strict";

// What an address of a detail page asks for, its window aside.
const detailOf = (now) => now.kind + " " + JSON.stringify(now.filter);
const viewOf = (kind) => Object.keys(views).find((view) => views[view].kind === kind);

// askDetail asks for what a detail page shows but the prices, which come later.
async function askDetail(now, at, signal) {
  const first = async (path, parameters) => (await ask(path, { ...now.filter, ...parameters }, at, signal)).result.items[0];
  if (now.kind !== "asset") return { row: await first(viewOf(now.kind)), signal };
  const [row, quote, groups] = await Promise.all([first("assets", { fields: "links" }), first("quotes"), askGroups(at, signal).catch(() => null)]);
  return { row, quote, signal, leads: row && groups?.filter(({ group }) => group.market.top_gainers.some((coin) => coin.id === row.id)) };
}

// askGroups asks for the largest groups. Of their coins the API names the top gainers.
async function askGroups(at, signal) {
  const kinds = ["category", "chain"];
  const answers = await Promise.all(kinds.map((kind) => ask(viewOf(kind), { size: 100 }, at, signal)));
  return answers.flatMap(({ result }, i) => result.items.map((group) => ({ kind: kinds[i], group })));
}

const entry = (title, value) => element("div", {}, element("dt", {}, title), element("dd", {}, value));
const headed = (row, ...name) => element("h2", { id: "detail-name", tabindex: "-1", ...(row && { title: row.slug }) }, ...name);

function showDetailSkeleton(now) {
  drawn.detail = "";
  $("chart-of").hidden = now.kind !== "asset";
  $("detail-parts").hidden = false;
  $("detail-head").replaceChildren(headed(null, bar()));
  clearChart(element("div", { class: "skeleton" }));
  $("facts").replaceChildren(...Array.from({ length: 5 }, () => entry(bar(), bar())));
  for (const list of [$("links"), $("related")]) list.replaceChildren(element("li", {}, bar()));
  $("windows").replaceChildren();
  $("links-none").hidden = $("related-none").hidden = true;
}

function showDetail(now, { row, quote, leads, signal }) {
  drawn.detail = detailOf(now);
  opened = row ? pageOf(row, now.kind) : "";
  const from = listing ?? { view: viewOf(now.kind), address: "?view=" + viewOf(now.kind) };
  $("back").setAttribute("href", from.address);
  $("back").textContent = "All " + from.view;
  $("detail-parts").hidden = !row;
  if (row) {
    document.title = row.name + (row.symbol ? " (" + row.symbol + ")" : "") + " \u00b7 Market board";
    const coin = element("div", { class: "coin" }, mark(row), headed(row, row.name));
    if (row.symbol) coin.append(element("span", { class: "symbol" }, row.symbol));
    $("detail-head").replaceChildren(coin);
    $("chart-of").hidden = now.kind !== "asset";
    showParts[now.kind](row, now, quote, leads);
    if (now.kind === "asset") showChart(row, now.window, signal);
    else clearChart();
  } else {
    document.title = "No such " + now.kind + " \u00b7 Market board";
    clearChart();
    $("detail-head").replaceChildren(headed(null, "No " + now.kind + " is listed at this address."));
  }
  if (came) $("detail-name").focus({ preventScroll: true });
  came = false;
}

// What the page of each kind has besides its name.
const showParts = {
  asset(asset, now, quote, leads) {
    $("detail-head").firstChild.append(star(asset, "star"));
    $("detail-head").append(element("p", { class: "price" }, exact(quote?.price, price), " ", changed(quote?.percent_change["24h"])));
    $("facts").replaceChildren(
      entry("Rank", asset.rank ? String(asset.rank) : nothing()),
      entry("Market cap", exact(quote?.market_cap, money)),
      entry("Volume 24 h", volume(quote?.volume)),
      ...["1h", "6h", "24h", "7d", "30d", "90d", "1y"].map((window) => entry(window.replace(/\D/, " $&"), changed(quote?.percent_change[window]))),
    );
    showList("links", "Links", [
      ...linked([["Website", asset.links.website], ["Whitepaper", asset.links.whitepaper]]),
      ...asset.explorers.map((url) => [outward(url), " ", element("span", { class: "soft" }, "explorer")]),
    ], "None is known.");
    showList("related", "Top gainer of", (leads ?? []).map(({ kind, group }) => [element("a", { href: pageOf(group, kind) }, group.name), " ", element("span", { class: "soft" }, kind)]),
      leads ? "None of the largest categories and chains." : "The categories and chains could not be loaded.");
    $("windows").replaceChildren(
      ...Object.keys(windows).map((window) => element("a", { href: pageOf(asset, "asset", window), ...(window === now.window && { "aria-current": "true" }) }, window)),
    );
  },
  exchange({ market, fees, links }) {
    $("facts").replaceChildren(
      entry("Volume 24 h", exact(market?.volume_24h, money)),
      entry("Markets", count(market?.markets_count)),
      entry("Coins", count(market?.coins_count)),
      entry("Maker fee", fees.maker),
      entry("Taker fee", fees.taker),
      entry("As of", market?.data_time ? utc(market.data_time) : nothing()),
    );
    showList("links", "Links", linked(Object.entries(links).map(([name, url]) => [name[0].toUpperCase() + name.slice(1), url])), "None is known.");
    showList("related");
  },
  category: showGroup,
  chain: showGroup,
};

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
  showList("related", "Top gainers, 24 hours", market.top_gainers.map((coin) => [named(coin, "asset")]), "There are none.");
}

// showList fills a part of the page that is a list; without a title it has none.
function showList(id, title, items = [], none) {
  $(id).parentElement.hidden = !title;
  $(id + "-title").textContent = title ?? "";
  $(id).replaceChildren(...items.map((item) => element("li", {}, ...item)));
  $(id + "-none").textContent = none ?? "";
  $(id + "-none").hidden = items.length > 0;
}

const linked = (links) => links.filter(([, url]) => url).map(([title, url]) => [outward(url, title)]);

// outward is a link to where a feed says, if that is the web.
function outward(url, title) {
  const to = URL.canParse(url) ? new URL(url) : { protocol: "" };
  if (!/^https?:$/.test(to.protocol)) return element("span", { class: "soft" }, title ?? url);
  return element("a", { href: to.href, title: to.href, rel: "noopener noreferrer nofollow ugc" }, title ?? to.host);
}

let charted = { of: "", chart: null }; // what the chart shows: asset and window

// showChart loads and draws the prices of a window. While the page renews itself the
// old ones stand, and the reader stays at a point that is still there.
async function showChart(asset, window, signal) {
  const of = asset.id + " " + window;
  if (charted.of !== of) clearChart(element("div", { class: "skeleton" }));
  let points;
  try {
    const { result } = await ask("history", { id: asset.id, window }, pin, signal);
    points = result.items[0]?.points ?? [];
  } catch (problem) {
    if (!signal.aborted) clearChart(element("p", { role: "alert" }, ...noted("The prices could not be loaded: " + why(problem), "Try again", () => load(pin))));
    return;
  }
  if (signal.aborted) return;
  if (points.length === 0) {
    clearChart(element("p", {}, "There are no points: no price of the last " + windows[window].words + " is kept."));
    return;
  }
  const { chart } = charted;
  const last = charted.of === of && chart && chart.index < chart.points.length - 1 ? points.findIndex(([time]) => time === chart.points[chart.index][0]) : -1;
  const focused = document.activeElement.id === "plot";
  const plot = element("div", { id: "plot", role: "slider", tabindex: "0", "aria-label": "Price of the last " + windows[window].words + ", by time", "aria-valuemin": "0" });
  clearChart(plot);
  charted = { of, chart: new Chart(plot, points, windows[window].step, (index) => showPoint(points[index])) };
  charted.chart.at(last < 0 ? points.length - 1 : last);
  if (focused) plot.focus({ preventScroll: true });
  const prices = points.map(([, price]) => price);
  const low = prices.reduce((a, b) => (less(b, a) ? b : a)), high = prices.reduce((a, b) => (less(a, b) ? b : a));
  $("range").replaceChildren("Low ", exact(low, price), ", high ", exact(high, price));
  $("points-of").hidden = $("range").hidden = false;
  $("points").tBodies[0].replaceChildren(...points.map(([time, price]) => element("tr", {}, element("td", { class: "text" }, utc(time)), element("td", {}, "$" + price))).reverse());
}

function clearChart(...instead) {
  charted.chart?.destroy();
  charted = { of: "", chart: null };
  $("chart").replaceChildren(...instead);
  $("point").replaceChildren();
  $("points-of").hidden = $("range").hidden = true;
}

const showPoint = ([time, price]) => $("point").replaceChildren(element("strong", {}, "$" + price), " " + utc(time));
