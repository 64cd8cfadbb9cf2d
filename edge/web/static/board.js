// The market board, on the same public API that everybody has. Names come from
// feeds and are hostile until proven otherwise: they reach the page as text,
// never as markup. Images of feeds are not loaded, and their links are there to be
// followed by the reader, if they lead to the web. Decimals stay strings (numbers.js),
// and a title has them in full.
"use strict";

const pageSize = 20; // and no more than /history takes
const staleAfter = 20 * 60; // seconds, as the header Cache-Status has it
const trendingShown = 8;
// Of events: how long to wait before what is new is asked for, so that not all
// boards come at once; how long a stream may be silent, which has a comment every 15
// seconds; how long to wait for the next one, which doubles with each failure. Without
// events, how often to look for a newer snapshot.
const spread = 3_000;
const silence = 40_000;
const [retryFirst, retryLast] = [2_000, 60_000];
const lookEvery = 60_000;

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 44rem)"); // as board.css has it: no wide columns
const auth = document.querySelector("meta[name=auth]").content;
const storedKey = "market-board-key";
const keyFormat = /^mdk_live_[0-9A-Za-z]{39}$/;

// --- elements --------------------------------------------------------------

// element makes one; children that are strings become text.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const nothing = () => element("span", { title: "not known" }, "\u2013");
const exact = (text, shown) => (text == null ? nothing() : element("span", { title: text }, shown(text)));

function changed(text) {
  if (text == null) return nothing();
  const { text: shown, sign } = change(text);
  return element("span", sign ? { class: sign, title: text + "%" } : { title: text + "%" }, shown);
}

// --- the API ---------------------------------------------------------------

class Problem extends Error {
  constructor(status, envelope, retryAfter) {
    super(envelope.message);
    this.status = status;
    this.key = envelope.message_key;
    this.retryAfter = retryAfter;
  }
}

function keyHeader() {
  const key = sessionStorage.getItem(storedKey);
  return auth === "keys" && key ? { "X-Api-Key": key } : {};
}

async function send(url, headers, signal, cache) {
  const response = await fetch(url, { headers: { ...keyHeader(), ...headers }, signal, cache });
  if (!response.ok) throw new Problem(response.status, await response.json(), response.headers.get("Retry-After"));
  return response;
}

// ask returns the result of an endpoint and the answer's headers, from the snapshot
// of a time; "": from the one in force.
async function ask(path, parameters, at, signal) {
  const query = new URLSearchParams(parameters).toString();
  const response = await send((at && "/at/" + at.replace(/[-:]/g, "")) + "/openapi/v1/" + path + (query && "?" + query), {}, signal, at ? "default" : "no-cache");
  const { result } = await response.json();
  return { result, headers: response.headers };
}

// --- what is shown ---------------------------------------------------------

// The columns of each view: a title, how a row's cell looks, and the sort key if
// the API has one.
const views = {
  assets: {
    title: "Assets",
    sort: "rank:asc",
    columns: [
      { title: "Rank", sort: "rank", style: "rank", cell: (row) => (row.rank ? String(row.rank) : nothing()) },
      { title: "Name", sort: "name", text: true, cell: (row) => named(row) },
      { title: "Price", cell: (row) => exact(row.quote?.price, price) },
      { title: "1 h", wide: true, cell: (row) => changed(row.quote?.percent_change["1h"]) },
      { title: "24 h", cell: (row) => changed(row.quote?.percent_change["24h"]) },
      { title: "7 d", wide: true, cell: (row) => changed(row.quote?.percent_change["7d"]) },
      { title: "Market cap", wide: true, cell: (row) => exact(row.quote?.market_cap, money) },
      { title: "Volume 24 h", wide: true, cell: (row) => exact(row.quote?.volume, money) },
      { title: "Last 7 days", wide: true, cell: (row) => (row.line = element("div", { class: "line skeleton" })) },
    ],
  },
  categories: { title: "Categories", sort: "market_cap:desc", columns: groupColumns() },
  chains: { title: "Chains", sort: "market_cap:desc", columns: groupColumns() },
};

function groupColumns() {
  return [
    { title: "Name", sort: "name", text: true, cell: (row) => element("span", { class: "name", title: row.slug }, row.name) },
    { title: "Market cap", sort: "market_cap", cell: (row) => exact(row.market.market_cap, money) },
    { title: "Share", cell: (row) => shared(row.market.market_cap_share) },
    { title: "Volume 24 h", sort: "volume_24h", wide: true, cell: (row) => exact(row.market.volume_24h, money) },
    { title: "Coins", wide: true, cell: (row) => String(row.market.coins_count) },
    { title: "Top gainers", text: true, wide: true, cell: (row) => row.market.top_gainers.map((coin) => coin.symbol).join(", ") || nothing() },
  ];
}

function named(row) {
  return element("a", { class: "coin", href: pageOf(row) }, mark(row), element("span", { class: "name", title: row.slug }, row.name), element("span", { class: "symbol" }, row.symbol));
}

// pageOf is the address of an asset's page: by its slug, which is unique, where a
// filter takes it for one value.
const pageOf = (row, window) =>
  "?" + new URLSearchParams({ ...(/^[^,]+$/.test(row.slug) ? { asset: row.slug } : { id: row.id }), ...(window && window !== "7d" && { window }) });

// mark stands where a logo would: feeds' images are not loaded.
function mark(row) {
  const letter = /[\p{L}\p{N}]/u.exec(row.symbol)?.[0] ?? "";
  const made = element("span", { class: "mark", "aria-hidden": "true" }, letter);
  made.style.setProperty("--hue", (row.id * 137) % 360);
  return made;
}

function shared(text) {
  const made = element("span", { class: "share" }, exact(text, share));
  made.style.setProperty("--part", share(text));
  return made;
}

// state is what the address says, so that reload, back and links work.
function state() {
  const parameters = new URLSearchParams(location.search);
  const window = Object.hasOwn(windows, parameters.get("window")) ? parameters.get("window") : "7d";
  if (parameters.get("asset")) return { filter: { slug: parameters.get("asset") }, window };
  if (/^\d{1,16}$/.test(parameters.get("id"))) return { filter: { id: parameters.get("id") }, window };
  const view = Object.hasOwn(views, parameters.get("view")) ? parameters.get("view") : "assets";
  const page = /^[1-9]\d{0,8}$/.test(parameters.get("page")) ? Number(parameters.get("page")) : 1;
  const keys = views[view].columns.map((column) => column.sort).filter(Boolean);
  const [key, direction] = (parameters.get("sort") || "").split(":");
  const sort = keys.includes(key) && (direction === "asc" || direction === "desc") ? key + ":" + direction : views[view].sort;
  return { view, page, sort, symbol: view === "assets" ? parameters.get("symbol") || "" : "" };
}

// go shows another state of the listing.
function go(changes) {
  const next = { ...state(), ...changes };
  const parameters = new URLSearchParams({ view: next.view });
  if (next.sort !== views[next.view].sort) parameters.set("sort", next.sort);
  if (next.page > 1) parameters.set("page", next.page);
  if (next.symbol) parameters.set("symbol", next.symbol);
  visit("?" + parameters);
}

function visit(address) {
  history.pushState(null, "", address);
  load(pin);
}

let pin = ""; // the snapshot that everything on the page is from
let current = ""; // the one that is in force, as far as is known
let overview = ""; // the one that totals and trending are from
let clock = null; // milliseconds from performance.now() to the server's time
let pages = 1; // of the listing
let running = null; // aborts what is being loaded, and what was last
let busy = false; // something is

// load shows what the address says, from the snapshot of a time or, "", from the one
// in force. Quietly, nothing is dimmed meanwhile.
async function load(at, quietly) {
  running?.abort();
  const mine = (running = new AbortController());
  busy = true;
  const parts = [$("table"), $("asset")];
  if (!quietly) {
    $("problem").hidden = true;
    for (const part of parts) part.setAttribute("aria-busy", "true");
  }
  if (!pin) showSkeleton();
  try {
    await show(at, mine.signal, quietly);
  } catch (problem) {
    if (mine.signal.aborted) return;
    if (quietly && problem.status !== 401) offer();
    else fail(problem);
  } finally {
    if (running === mine) {
      busy = false;
      for (const part of parts) part.removeAttribute("aria-busy");
    }
  }
  follow();
  if ($("problem").hidden) renew();
}

async function show(at, signal, quietly) {
  const now = state();
  let totals;
  if (!at) {
    totals = await ask("global", {}, "", signal);
    current = at = totals.headers.get("X-Snapshot-Time");
    setClock(totals.headers);
  }
  const over = !now.filter && overview !== at && Promise.all([totals ?? ask("global", {}, at, signal), ask("trending", {}, at, signal)]);
  const [main, summary] = await Promise.all([now.filter ? askAsset(now, at, signal) : askListing(now, at, signal, quietly), over]);
  signal.throwIfAborted();
  pin = at;
  showAge();
  $("key-form").hidden = true;
  $("forget").hidden = auth === "off";
  if (quietly) $("problem").hidden = true;
  keepingFocus(() => {
    if (summary) {
      overview = at;
      showTotals(summary[0].result);
      showTrending(summary[1].result.items);
    }
    if (now.filter) showAsset(now, main);
    else showListing(now, main);
  });
}

// keepingFocus draws anew. What had the focus has it again, if it is still there.
function keepingFocus(draw) {
  const { id, dataset } = document.activeElement;
  const href = document.activeElement.getAttribute("href");
  const part = document.activeElement.parentElement?.closest("[id]");
  draw();
  if (document.activeElement !== document.body) return;
  const same = (one) => (href !== null ? one.getAttribute("href") === href : dataset.sort && one.dataset.sort === dataset.sort);
  (id ? $(id) : [...(part?.querySelectorAll("a, button") ?? [])].find(same))?.focus({ preventScroll: true });
}

function fail(problem) {
  if (!pin) $("board").hidden = $("asset").hidden = true;
  if (problem.status === 401) {
    const known = sessionStorage.getItem(storedKey) !== null;
    forget();
    if (known) note("This key is not in force: it may be mistyped, revoked or expired.");
    return;
  }
  if (problem.key === "SNAPSHOT_GONE") note("The snapshot that this page was from is no longer kept.", "Show the newest", start);
  else note(why(problem), "Try again", start);
}

function why(problem) {
  if (problem.key === "NOT_FOUND") return "There is no snapshot yet.";
  if (problem.status === 429) return "Too many requests; there is room again in " + problem.retryAfter + " s.";
  return problem instanceof Problem ? problem.message : "The service cannot be reached.";
}

// note shows a line, and a button if there is something to do about it.
function note(...said) {
  $("problem").replaceChildren(...noted(...said));
  $("problem").hidden = false;
}

function noted(text, label, action) {
  if (!label) return [text];
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", action);
  return [text, " ", button];
}

// start shows everything from the newest snapshot.
function start() {
  if (auth === "keys" && sessionStorage.getItem(storedKey) === null) {
    forget();
    return;
  }
  return load("");
}

// showSkeleton stands where nothing is shown yet.
function showSkeleton() {
  const asset = Boolean(state().filter);
  const bar = () => element("span", { class: "skeleton" }, "\u2007");
  $("key-form").hidden = true;
  $("board").hidden = asset;
  $("asset").hidden = !asset;
  $("where").textContent = "Loading";
  $("totals").replaceChildren(...Array.from({ length: 3 }, () => element("div", {}, element("dt", {}, bar()), element("dd", {}, bar()))));
  $("trending").replaceChildren(...Array.from({ length: trendingShown }, () => element("li", {}, bar())));
  $("table").tBodies[0].replaceChildren(...Array.from({ length: pageSize }, () => element("tr", {}, element("td", {}, bar()))));
  $("asset-head").replaceChildren(element("h2", {}, bar()));
  $("chart").replaceChildren(element("div", { class: "skeleton" }));
}

function showTotals(totals) {
  const entry = (title, value) => element("div", {}, element("dt", {}, title), element("dd", {}, value));
  $("totals").replaceChildren(
    entry("Market cap", exact(totals.total_market_cap, money)),
    entry("Volume 24 h", exact(totals.total_volume_24h, money)),
    entry("Change 24 h", changed(totals.total_market_cap_change_percentage_24h)),
  );
}

function showTrending(items) {
  $("trending").replaceChildren(
    ...items.slice(0, trendingShown).map((row) =>
      element("li", {}, mark(row), element("a", { class: "symbol", title: row.symbol, href: pageOf(row) }, row.symbol), changed(row.percent_change["24h"]),
        element("span", { class: "name", title: row.name }, row.name), element("span", { class: "price" }, exact(row.price, price)))),
  );
  $("trending-none").hidden = items.length > 0;
}

// askListing asks for one page of the view, and for the prices of its assets.
async function askListing(now, at, signal, quietly) {
  const parameters = { sort: now.sort, page: now.page, size: pageSize };
  if (now.symbol) parameters.symbol = now.symbol.split(/[\s,]+/).filter(Boolean).slice(0, 100).join(",") || ",";
  const { result } = await ask(now.view, parameters, at, signal);
  const rows = result.items;
  if (now.view !== "assets" || rows.length === 0) return { result };
  const id = rows.map((row) => row.id).join(",");
  const prices = !narrow.matches && ask("history", { id, window: "7d", size: pageSize }, at, signal).catch(() => null); // the lines say so
  const quotes = await ask("quotes", { id, size: 100 }, at, signal);
  const byID = new Map(quotes.result.items.map((quote) => [quote.id, quote]));
  for (const row of rows) row.quote = byID.get(row.id);
  if (quietly) await prices; // so that no line blinks
  return { result, prices, signal };
}

let lines = []; // that are drawn

// showLines draws the prices of seven days into rows, when they are there.
async function showLines(rows, prices, signal) {
  const answer = await prices;
  if (signal.aborted) return;
  const byID = new Map(answer?.result.items.map((item) => [item.id, item.points]));
  for (const row of rows) {
    const points = byID.get(row.id);
    row.line.classList.remove("skeleton");
    if (points) {
      const sign = row.quote && change(row.quote.percent_change["7d"]).sign;
      row.line.setAttribute("role", "img");
      row.line.setAttribute("aria-label", "From " + price(points[0][1]) + " to " + price(points.at(-1)[1]));
      lines.push(line(row.line, points, sign || "soft"));
    } else {
      row.line.replaceChildren(element("span", { title: answer ? "no prices are kept" : "could not be loaded" }, "\u2013"));
    }
  }
}

let listing = "?view=assets"; // the last that was shown, which an asset's page leads back to
let opened = ""; // the address of the asset's page that is shown

function showListing(now, { result, prices, signal }) {
  const rows = result.items;
  const view = views[now.view];
  $("board").hidden = false;
  $("asset").hidden = true;
  for (const old of lines.splice(0)) old.destroy();
  $("table").caption.textContent = view.title;
  $("listing-title").textContent = view.title;
  $("table").tHead.replaceChildren(element("tr", {}, ...view.columns.map((column) => heading(column, now))));
  $("table").tBodies[0].replaceChildren(
    ...rows.map((row) => element("tr", {}, ...view.columns.map((column) => element("td", { class: classOf(column) }, column.cell(row))))),
  );
  if (prices) showLines(rows, prices, signal);
  if (rows.length === 0) $("table").tBodies[0].append(element("tr", {}, element("td", { class: "empty", colspan: view.columns.length }, emptyBecause(now, result))));
  for (const link of $("views").children) {
    if (link.getAttribute("href") === "?view=" + now.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("search").hidden = now.view !== "assets";
  $("symbol").value = now.symbol;
  pages = result.total_page;
  turn($("previous"), $("next"), now.page <= 1);
  turn($("next"), $("previous"), now.page >= pages);
  const whole = (number) => roundDecimal(String(number), 0);
  $("where").textContent = "Page " + whole(now.page) + " of " + whole(result.total_page) + ", " + whole(result.total) + (result.total === 1 ? " row" : " rows");
  document.title = view.title + " \u00b7 Market board";
  listing = location.search || "?view=assets";
  if (opened) [...$("table").querySelectorAll("a")].find((link) => link.getAttribute("href") === opened)?.focus();
  opened = "";
}

function emptyBecause(now, result) {
  if (result.total > 0) return "There is no such page.";
  return now.symbol ? "No asset has the symbol " + now.symbol + ". The search takes whole symbols, several with commas." : "Nothing is listed.";
}

// turn switches a button on or off. When it goes off, the focus goes to the other.
function turn(button, other, off) {
  if (off && document.activeElement === button) {
    other.disabled = false;
    other.focus();
  }
  button.disabled = off;
}

const classOf = (column) => [column.text && "text", column.wide && "wide", column.style].filter(Boolean).join(" ");

// heading makes the head of a column; a button sorts by it.
function heading(column, now) {
  const th = element("th", { scope: "col", class: classOf(column) });
  if (!column.sort) {
    th.append(column.title);
    return th;
  }
  const [key, direction] = now.sort.split(":");
  const active = key === column.sort;
  if (active) th.setAttribute("aria-sort", direction === "asc" ? "ascending" : "descending");
  const button = element("button", { type: "button", "data-sort": column.sort }, column.title);
  button.addEventListener("click", () => {
    const first = column.sort === "rank" || column.sort === "name" ? "asc" : "desc";
    const other = direction === "asc" ? "desc" : "asc";
    go({ sort: column.sort + ":" + (active ? other : first), page: 1 });
  });
  th.append(button);
  return th;
}

// --- an asset ----------------------------------------------------------------

async function askAsset(now, at, signal) {
  const [assets, quotes] = await Promise.all([ask("assets", { ...now.filter, fields: "links" }, at, signal), ask("quotes", now.filter, at, signal)]);
  return { asset: assets.result.items[0], quote: quotes.result.items[0], signal };
}

function showAsset(now, { asset, quote, signal }) {
  const came = !$("board").hidden;
  opened = asset ? pageOf(asset) : "";
  $("board").hidden = true;
  $("asset").hidden = false;
  $("back").setAttribute("href", listing);
  $("asset-parts").hidden = !asset;
  if (came) scrollTo(0, 0);
  if (!asset) {
    document.title = "No such asset \u00b7 Market board";
    clearChart();
    $("asset-head").replaceChildren(element("h2", { id: "asset-name", tabindex: "-1" }, "No asset is listed at this address."));
    return;
  }
  document.title = asset.name + " (" + asset.symbol + ") \u00b7 Market board";
  $("asset-head").replaceChildren(
    element("div", { class: "coin" }, mark(asset), element("h2", { id: "asset-name", tabindex: "-1", title: asset.slug }, asset.name), element("span", { class: "symbol" }, asset.symbol)),
    element("p", { class: "price" }, exact(quote?.price, price), " ", changed(quote?.percent_change["24h"])),
  );
  const entry = (title, value) => element("div", {}, element("dt", {}, title), element("dd", {}, value));
  $("facts").replaceChildren(
    entry("Rank", asset.rank ? String(asset.rank) : nothing()),
    entry("Market cap", exact(quote?.market_cap, money)),
    entry("Volume 24 h", exact(quote?.volume, money)),
    ...["1h", "6h", "24h", "7d", "30d", "90d", "1y"].map((window) => entry(window.replace(/\D/, " $&"), changed(quote?.percent_change[window]))),
  );
  const links = [["Website", asset.links.website], ["Whitepaper", asset.links.whitepaper]].filter(([, url]) => url);
  $("links").replaceChildren(
    ...links.map(([title, url]) => element("li", {}, outward(url, title))),
    ...asset.explorers.map((url) => element("li", {}, outward(url), " ", element("span", { class: "soft" }, "explorer"))),
  );
  $("links-none").hidden = $("links").children.length > 0;
  $("windows").replaceChildren(
    ...Object.keys(windows).map((window) => element("a", { href: pageOf(asset, window), ...(window === now.window && { "aria-current": "true" }) }, window)),
  );
  if (came) $("asset-name").focus();
  showChart(asset, now.window, signal);
}

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
  $("points-of").hidden = false;
  $("points").tBodies[0].replaceChildren(...points.map(([time, price]) => element("tr", {}, element("td", { class: "text" }, utc(time)), element("td", {}, "$" + price))).reverse());
}

function clearChart(...instead) {
  charted.chart?.destroy();
  charted = { of: "", chart: null };
  $("chart").replaceChildren(...instead);
  $("point").replaceChildren();
  $("points-of").hidden = true;
}

const showPoint = ([time, price]) => $("point").replaceChildren(element("strong", {}, "$" + price), " " + utc(time));

// --- time ----------------------------------------------------------------------

// setClock notes the server's time: this machine's may be wrong. What a cache
// answers has an old one.
function setClock(headers) {
  clock = (Date.parse(headers.get("Date")) || Date.now()) - performance.now();
}

function showAge() {
  if (!pin) return;
  const seconds = (performance.now() + clock - Date.parse(pin)) / 1000;
  const minutes = Math.floor(Math.max(seconds, 0) / 60);
  const stale = seconds > staleAfter;
  const said = minutes < 1 ? "just now" : minutes < 120 ? minutes + " min ago" : Math.floor(minutes / 60) + " h ago";
  const text = "Snapshot of " + utc(pin) + ", " + said + (stale ? ", stale" : "");
  // Written only when it differs, because it is read out.
  if ($("age").textContent !== text) $("age").textContent = text;
  $("age").classList.toggle("stale", stale);
}

let following = null; // ends the stream of events
let hearing = false; // events come

// follow hears of each snapshot that becomes current, for as long as the page is
// seen: a key has only so many streams, and a browser so many connections to a host.
// EventSource would not send the key.
async function follow() {
  if (following || document.hidden || (auth === "keys" && sessionStorage.getItem(storedKey) === null)) return;
  const { signal } = (following = new AbortController());
  const pause = (time) => new Promise((done) => {
    setTimeout(done, time);
    signal.addEventListener("abort", done, { once: true });
  });
  for (let failures = 0; !signal.aborted; ) {
    let wait = 0;
    try {
      const stream = await send("/openapi/v1/events", pin && { "Last-Event-ID": pin }, signal, "no-store");
      setClock(stream.headers);
      hearing = true;
      failures = 0;
      await hear(stream.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.status === 401) return fail(problem);
      wait = 1000 * problem.retryAfter || 0;
      failures++;
    } finally {
      if (following?.signal === signal) hearing = false;
    }
    await pause(Math.max(wait, Math.min(retryFirst * 2 ** failures, retryLast)) + Math.random() * spread);
  }
}

function unfollow() {
  following?.abort();
  following = null;
  hearing = false;
}

// hear reads events until their stream ends, or is silent for too long.
async function hear(reader) {
  for (let text = ""; ; ) {
    const silent = setTimeout(() => reader.cancel(), silence);
    const { value, done } = await reader.read();
    clearTimeout(silent);
    if (done) return;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      current = JSON.parse(line.slice(5)).snapshot_time;
      renew();
    }
  }
}

let renewal = 0; // a timer

// renew moves the page to the snapshot in force a moment after it is heard of, unless
// the reader is being served: then after that.
function renew() {
  if (renewal || !hearing || current === pin) return;
  renewal = setTimeout(() => {
    renewal = 0;
    if (!busy && hearing && current !== pin) load(current, true);
  }, Math.random() * spread);
}

// look asks for a newer snapshot where no events come, and offers it.
async function look() {
  if (hearing || !pin || document.hidden) return;
  try {
    const { headers } = await ask("global", {}, "", null);
    setClock(headers);
    if (hearing || headers.get("X-Snapshot-Time") === current) return;
    current = headers.get("X-Snapshot-Time");
    offer();
  } catch {
    // The age tells how old the page is; the next look comes soon.
  }
}

const offer = () => note("There is a newer snapshot.", "Show it", start);

function forget() {
  unfollow();
  running?.abort();
  sessionStorage.removeItem(storedKey);
  pin = current = overview = "";
  $("board").hidden = $("asset").hidden = $("forget").hidden = $("problem").hidden = true;
  $("age").textContent = "";
  $("key-form").hidden = false;
  $("key").focus();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = $("key").value.trim();
  if (!keyFormat.test(key)) {
    note("This is not a whole key: one begins with mdk_live_ and has 39 letters and digits behind it.");
    return;
  }
  sessionStorage.setItem(storedKey, key);
  $("key").value = "";
  start();
});
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ symbol: $("symbol").value.trim(), page: 1 });
});
// An emptied field shows all again.
$("symbol").addEventListener("input", () => {
  if ($("symbol").value === "" && state().symbol) go({ symbol: "", page: 1 });
});
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="?"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  visit(link.getAttribute("href"));
});
$("previous").addEventListener("click", () => go({ page: Math.min(state().page - 1, pages) }));
$("next").addEventListener("click", () => go({ page: state().page + 1 }));
$("forget").addEventListener("click", forget);
addEventListener("popstate", () => load(pin));
document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
for (const query of [narrow, matchMedia("(prefers-color-scheme: dark)")]) query.addEventListener("change", () => pin && load(pin, true)); // what is drawn has colours
setInterval(showAge, 10_000);
setInterval(look, lookEvery);
start();
