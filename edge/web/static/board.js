// The market board uses the same public API as everybody else. Names come from feeds and may be
// hostile, so the page shows them as text, never as markup. Logos are loaded only from the origins
// that the operator names. Links are shown only if they lead to the web. Decimals stay strings
// (numbers.js), and a tooltip has all of their digits.
"use strict";

const perPage = [20, 50, 100]; // rows per page; the first is the default
const historySize = 20; // ids per request; /history accepts no more
const staleAfter = 20 * 60; // seconds, as in the header Cache-Status
const interval = 10 * 60; // seconds from one snapshot to the next
const newsFor = 10_000; // milliseconds for which the number of changed prices is shown
// The following times are in milliseconds. After an event, a board waits up to spread, so that not all
// boards ask at the same time. A stream sends a comment every 15 seconds, and counts as dead after
// silence. The wait before the next stream doubles with each failure, from retryFirst to retryLast.
// Without events, the board looks for a newer snapshot every lookEvery.
const spread = 3_000;
const silence = 40_000;
const [retryFirst, retryLast] = [2_000, 60_000];
const lookEvery = 60_000;

const $ = (id) => document.getElementById(id);
const logoOrigins = document.querySelector("meta[name=logos]").content.split(" ");
const lined = matchMedia("(min-width: 980px)"); // whether there is room for lines; board.css uses the same width

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const count = (number) => exact(number == null ? null : String(number), (text) => (text.length < 8 ? roundDecimal(text, 0) : large(text)));
const fee = (text) => exact(text, (text) => (text.startsWith("0") ? tiny(text) : text.length < 9 ? text : large(text)));
const volume = (text) => exact(text === "0" ? null : text, money); // the API reports an unknown volume as 0
const nothing = () => element("span", { title: "not known" }, "\u2013");

// If subscript digits count zeros, screen readers get the decimal itself.
function exact(text, shown) {
  if (text == null) return nothing();
  const short = shown(text);
  if (!/[\u2080-\u2089]/.test(short)) return element("span", { title: text }, short);
  return element("span", { class: "tiny", title: text }, element("span", { "aria-hidden": "true" }, short), element("span", { class: "hidden" }, "$" + text));
}

const local = (time) => new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "long" });
const timed = (time) => (time ? element("time", { datetime: time, title: local(time) }, utc(time)) : nothing());

function changed(text) {
  if (text == null) return nothing();
  const { text: shown, sign } = change(text);
  return element("span", sign ? { class: sign, title: text + "%" } : { title: text + "%" }, shown);
}

const hours = { "1h": 1, "6h": 6, "12h": 12, "24h": 24, "7d": 168, "30d": 720, "90d": 2160, "1y": 8760 };

// overWindow shows the change of a quote over a window. If the prices begin later than the window, it shows
// the change since the first price and says so: visibly if there is room, otherwise in the tooltip.
function overWindow(quote, window, room) {
  const made = changed(quote?.percent_change?.[window]);
  if (!quote?.since || seconds(quote.since) <= seconds(pin) - 3600 * hours[window]) return made;
  const from = " since " + timeLabel(seconds(quote.since), hours[window] > 24 ? 86400 : 3600);
  made.title += from;
  made.append(element("span", { class: room ? "since" : "hidden" }, from));
  made.classList.add("short");
  return made;
}

class Problem extends Error {
  constructor(status, envelope, retryAfter) {
    super(envelope.message);
    this.status = status;
    this.key = envelope.message_key;
    this.retryAfter = retryAfter;
  }
}

const keyHeader = () => heldKey() && { "X-Api-Key": heldKey() };

async function send(url, headers, signal, cache) {
  const response = await fetch(url, { headers: { ...keyHeader(), ...headers }, signal, cache });
  if (!response.ok) throw new Problem(response.status, await response.json(), response.headers.get("Retry-After"));
  return response;
}

let reachable = true; // whether the edge answered the last request

// ask returns the result of an endpoint and the answer's headers. They are from the snapshot of the
// time at, or from the current one if at is "".
async function ask(path, parameters, at, signal) {
  const query = new URLSearchParams(parameters).toString();
  const url = (at && "/at/" + at.replace(/[-:]/g, "")) + "/openapi/v1/" + path + (query && "?" + query);
  const response = await send(url, {}, signal, at ? "default" : "no-cache").catch((problem) => {
    if (!signal?.aborted) reachable = problem instanceof Problem;
    throw problem;
  });
  reachable = true;
  const { result } = await response.json();
  return { result, headers: response.headers };
}

// views contains the columns of each view. A column has a title, a name for screen readers (says), a function
// that creates a row's cell, and a sort key if the API has one. Narrow windows hide the columns with a number
// (wide), the highest first. kind says what a row is.
const views = {
  assets: {
    title: "Assets",
    kind: "asset",
    sort: "rank:asc",
    columns: [
      { title: "", says: "Favourite", style: "starred", cell: (row) => star(row) },
      { title: "#", says: "Rank", sort: "rank", style: "rank", cell: (row) => (row.rank ? String(row.rank) : nothing()) },
      { title: "Name", sort: "name", also: { title: "Symbol", sort: "symbol" }, style: "who text", cell: (row) => named(row, "asset") },
      { title: "Price", sort: "price", style: "price", cell: (row) => exact(row.price, price) },
      { title: "1 h", wide: 5, ...changeOver("1h") },
      { title: "24 h", ...changeOver("24h") },
      { title: "7 d", wide: 3, ...changeOver("7d") },
      { title: "30 d", wide: 6, ...changeOver("30d") },
      { title: "Market cap", sort: "market_cap", wide: 1, cell: (row) => exact(row.market_cap, money) },
      { title: "Volume 24 h", sort: "volume", wide: 2, cell: (row) => volume(row.volume) },
      { title: "Last 7 days", wide: 4, style: "lines", cell: (row) => (row.line = element("div", { class: "line skeleton" })) },
    ],
  },
  categories: { title: "Categories", kind: "category", sort: "market_cap:desc", columns: groupColumns("category") },
  chains: { title: "Chains", kind: "chain", sort: "market_cap:desc", columns: groupColumns("chain") },
  exchanges: {
    title: "Exchanges",
    kind: "exchange",
    sort: "volume:desc",
    columns: [
      { title: "Name", sort: "name", style: "who text", cell: (row) => named(row, "exchange") },
      { title: "Volume 24 h", sort: "volume", cell: (row) => exact(row.market?.volume_24h, money) },
      { title: "Markets", cell: (row) => count(row.market?.markets_count) },
      { title: "Coins", wide: 1, cell: (row) => count(row.market?.coins_count) },
      { title: "Maker fee", wide: 2, cell: (row) => fee(row.fees.maker) },
      { title: "Taker fee", wide: 2, cell: (row) => fee(row.fees.taker) },
      { title: "As of", wide: 4, cell: (row) => timed(row.market?.data_time) },
    ],
  },
};

const one = { assets: "asset", categories: "category", chains: "chain", exchanges: "exchange" };
views.changes = {
  title: "New and changed",
  kind: "change",
  columns: [
    { title: "Name", style: "who text", cell: (row) => (row.kind === "removed" ? element("span", { class: "called" }, row.name) : named(row, one[row.collection])) },
    { title: "What", style: "text", cell: (row) => whatChanged(row) },
    { title: "When", wide: 1, cell: (row) => timed(row.time) },
  ],
};

// whatChanged says what happened to an item. For strings, it states the old and the new value.
function whatChanged({ kind, collection, fields }) {
  if (!fields) return one[collection] + " " + { added: "added", back: "is back", removed: "removed" }[kind];
  return Object.entries(fields).map(([name, { old, new: now }]) => (now === undefined || name === "logo" ? name : name + ": " + (old || "\u2013") + " \u2192 " + (now || "\u2013"))).join(", ");
}

const listed = Object.keys(views).concat("favourites"); // views with their own URL
views.favourites = { ...views.assets, title: "Favourites" };
views.coins = { ...views.assets, title: "Coins" }; // the coins of a category or chain

const orders = { All: views.assets.sort, Gainers: "percent_change.24h:desc", Losers: "percent_change.24h:asc", Volume: "volume:desc" };

function changeOver(window) {
  return { sort: "percent_change." + window, cell: (row) => overWindow(row, window) };
}

function groupColumns(kind) {
  return [
    { title: "Name", sort: "name", style: "who text", cell: (row) => named(row, kind) },
    { title: "Market cap", sort: "market_cap", cell: (row) => exact(row.market.market_cap, money) },
    { title: "Share", cell: (row) => shared(row.market.market_cap_share) },
    { title: "Volume 24 h", sort: "volume_24h", wide: 1, cell: (row) => volume(row.market.volume_24h) },
    { title: "Coins", wide: 2, cell: (row) => count(row.market.coins_count) },
    { title: "Top gainers", wide: 4, style: "text", cell: (row) => gainers(row) },
  ];
}

const gainers = (row) =>
  row.market.top_gainers.length ? element("span", { class: "gainers" }, ...row.market.top_gainers.map((coin) => element("a", { href: pageOf(coin, "asset"), title: coin.name }, coin.symbol))) : nothing();

function named(row, kind) {
  const called = element("span", { class: "called" }, element("span", { class: "name", title: row.name }, row.name));
  if (row.symbol) called.append(element("span", { class: "under" }, element("span", { class: "place" }, String(row.rank ?? "")), element("span", { class: "symbol", title: row.symbol }, row.symbol)));
  return element("a", { class: "coin", href: pageOf(row, kind) }, mark(row), called);
}

// pageOf returns the URL of a detail page. It names an asset by its slug, which is unique, unless the
// slug contains a comma, which a filter would read as two values. It names everything else by id.
const pageOf = (row, kind, window, chart) =>
  "?" + new URLSearchParams({ ...(kind !== "asset" ? { [kind]: row.id } : /^[^,]+$/.test(row.slug) ? { asset: row.slug } : { id: row.id }), ...(window && window !== "7d" && { window }), ...(chart === "candles" && { chart }) });

// mark creates a monogram, with the logo over it if the operator names the logo's origin.
function mark(row) {
  const letter = /[\p{L}\p{N}]/u.exec(row.symbol ?? row.name)?.[0] ?? "";
  const made = element("span", { class: "mark", "aria-hidden": "true" }, letter);
  made.style.setProperty("--hue", (row.id * 137) % 360);
  if (!URL.canParse(row.logo) || !logoOrigins.includes(new URL(row.logo).origin)) return made;
  const logo = element("img", { src: row.logo, alt: "", loading: "lazy", width: "30", height: "30" });
  const shown = () => made.classList.add("logo");
  if (logo.complete && logo.naturalWidth) shown();
  logo.addEventListener("load", shown);
  logo.addEventListener("error", () => logo.remove());
  made.append(logo);
  return made;
}

function shared(text) {
  const made = element("span", { class: "share" }, exact(text, share));
  made.style.setProperty("--part", share(text));
  return made;
}

// state returns what the URL asks for, so that reload, back and links work. This is a page of a
// listing, a detail page, or both, since the page of a category or chain lists its coins.
function state() {
  const parameters = new URLSearchParams(location.search);
  const get = (name, format) => (format.test(parameters.get(name) ?? "") ? parameters.get(name) : undefined);
  const window = Object.hasOwn(windows, parameters.get("window")) ? parameters.get("window") : "7d";
  const chart = parameters.get("chart") === "candles" ? "candles" : "line";
  let view = listed.includes(parameters.get("view")) ? parameters.get("view") : "assets";
  let detail;
  if (parameters.get("asset")) detail = { kind: "asset", filter: { slug: parameters.get("asset") }, window, chart };
  for (const name of ["id", "exchange", "category", "chain"]) {
    const id = get(name, /^\d{1,16}$/);
    if (id && !detail) detail = { kind: name === "id" ? "asset" : name, filter: { id }, window, chart };
  }
  if (detail && !isGroup(detail.kind)) return detail;
  if (detail) view = "coins";
  const rows = perPage.find((rows) => String(rows) === parameters.get("rows")) ?? perPage[0];
  const page = Number(get("page", /^[1-9]\d{0,8}$/) ?? 1);
  const [key, direction] = (parameters.get("sort") || "").split(":");
  const sort = sortable(view).some((column) => column.sort === key) && (direction === "asc" || direction === "desc") ? key + ":" + direction : views[view].sort;
  return { ...detail, view, page, rows, sort };
}

const isGroup = (kind) => kind === "category" || kind === "chain";
const sortable = (view) => views[view].columns.flatMap((column) => [column, column.also]).filter((column) => column?.sort);

function addressOf(changes) {
  const next = { ...state(), ...changes };
  const parameters = new URLSearchParams(next.filter ? { [next.kind]: next.filter.id } : { view: next.view });
  if (next.sort !== views[next.view].sort) parameters.set("sort", next.sort);
  if (next.rows !== perPage[0]) parameters.set("rows", next.rows);
  if (next.page > 1) parameters.set("page", next.page);
  return "?" + parameters;
}

const go = (changes) => visit(addressOf(changes));

// visit shows another URL. Each entry of the browser's history records how far the reader had
// scrolled, because the page appears too late for the browser to restore that.
function visit(address) {
  history.replaceState({ y: scrollY }, "");
  if (address !== location.search) history.pushState(null, "", address);
  load(pin);
}

history.scrollRestoration = "manual";
let place = history.state?.y; // where to scroll once the page is shown

let pin = ""; // the time of the snapshot that the page shows
let current = ""; // the time of the current snapshot, as far as is known
let overview = ""; // the time of the snapshot that the totals are from
let clock = null; // milliseconds from performance.now() to the server's time
let pages = 1; // pages of the listing
let running = null; // aborts the current or the last load
let busy = false; // whether something is being loaded

// load shows what the URL asks for, from the snapshot of the time at, or from the current one if at
// is "". If quietly is set, the page keeps its content until the new content is there.
async function load(at, quietly) {
  running?.abort();
  const mine = (running = new AbortController());
  busy = true;
  const parts = [$("table"), $("detail")];
  if (!quietly) {
    $("problem").hidden = true;
    for (const part of parts) part.setAttribute("aria-busy", "true");
    showWaiting(state());
  }
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
  const over = !now.filter && overview !== at && Promise.all([totals ?? ask("global", {}, at, signal), askLargest(at, signal)]);
  const detail = now.filter && askDetail(now, at, signal);
  const [about, list, summary] = await Promise.all([detail, now.view && askListing(now, at, signal, quietly, detail), over]);
  signal.throwIfAborted();
  const newer = quietly && pin !== at;
  pin = at;
  shareKey();
  $("key-form").hidden = true;
  $("forget").hidden = auth === "off";
  if (quietly) $("problem").hidden = true;
  keepingFocus(() => {
    turnOver(now);
    if (summary) {
      overview = at;
      showTotals(summary[0].result, summary[1].result);
    }
    if (list) showListing(now, list, newer);
    if (now.filter) showDetail(now, about, newer);
  });
  tellNews(list?.result.items ?? (about.quote ? [about.quote] : []), newer);
  showAge();
  if (quietly || place === undefined) return;
  scrollTo(0, place);
  place = undefined;
}

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
  $("age").hidden = !pin;
  $("board").hidden ||= !overview;
  $("detail").hidden ||= !drawn.detail;
  $("listing").hidden ||= drawn.table !== tableOf(state());
  if (problem.status === 401) {
    const known = heldKey() !== null;
    dropKey();
    askForKey();
    if (known) note("This key is not valid: it may be mistyped, revoked or expired.");
    return;
  }
  if (problem.key === "SNAPSHOT_GONE") note("The snapshot of this page is no longer available.", "Show the newest", start);
  else note(why(problem), "Try again", start);
}

function why(problem) {
  if (problem.key === "NOT_FOUND") return "There is no snapshot yet.";
  if (problem.status === 429) return "Too many requests. Try again in " + problem.retryAfter + " s.";
  return problem instanceof Problem ? problem.message : "The service cannot be reached.";
}

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

const start = () => (needsKey() ? askForKey() : load(""));

const drawn = { table: "", detail: "" }; // what the two parts contain, hidden or not
let came = false; // whether the reader has just come to another detail page
const tableOf = (now) => (now.filter ? detailOf(now) : "listing");

// showWaiting shows the parts of the page that are being loaded. Parts without content get skeletons;
// board.css defines how rows look while they wait for newer ones.
function showWaiting(now) {
  $("key-form").hidden = true;
  if (now.filter) {
    const other = pin && ($("detail").hidden || drawn.detail !== detailOf(now));
    if (other && place === undefined) scrollTo(0, 0);
    came ||= other;
    if (drawn.detail !== detailOf(now)) showDetailSkeleton(now);
  } else {
    came = false;
    if (!overview) {
      $("totals").replaceChildren(...Array.from({ length: 6 }, () => entry(bar(), "")));
    }
  }
  if (now.view && drawn.table !== tableOf(now)) {
    showHead(now);
    $("where").textContent = "Loading";
    $("table").tBodies[0].replaceChildren(...Array.from({ length: now.rows }, () => element("tr", {}, ...views[now.view].columns.map((column) => element("td", { class: classOf(column, now) }, bar())))));
  }
  turnOver(now);
}

function turnOver(now) {
  $("board").hidden = Boolean(now.filter);
  $("detail").hidden = !now.filter;
  $("listing").hidden = !now.view;
  $("search").hidden = $("age").hidden = false;
}

const bar = () => element("span", { class: "skeleton" }, "\u2007");

// askLargest asks for the two largest quoted assets. It returns none if the snapshot has no markets,
// because an older builder published it.
const askLargest = (at, signal) => ask("markets", { sort: "market_cap:desc", size: 2 }, at, signal).catch((problem) => {
  if (problem.status !== 503) throw problem;
  return { result: { items: [], total: null } };
});

function showTotals(totals, { items, total }) {
  const all = totals.total_market_cap;
  $("totals").replaceChildren(
    entry("Market cap", exact(all, money)),
    entry("Volume 24 h", volume(totals.total_volume_24h)),
    entry("Change 24 h", changed(totals.total_market_cap_change_percentage_24h)),
    ...items.filter((row) => row.market_cap && /[1-9]/.test(all)).map((row) => entry(row.symbol, element("span", { title: "share of the market cap" }, share(ratio(row.market_cap, all))))),
    entry("Assets", count(total)),
    entry("As of", timed(totals.data_time)),
  );
}

// askListing asks for one page of the view, and for the prices of its lines. detail is the answer
// with the group that the assets belong to, if any.
async function askListing(now, at, signal, quietly, detail) {
  const asked = { sort: now.sort, page: now.page, size: now.rows };
  if (!asked.sort) delete asked.sort; // changes have only one order
  if (views[now.view].kind !== "asset") return ask(now.view, asked, at, signal);
  if (now.view === "favourites") asked.id = favourites.join(",") || ","; // a comma alone is a list without values
  if (now.filter) {
    const { row } = await detail;
    if (!row) return null;
    asked[now.kind] = row.slug.includes(",") ? "," : row.slug;
  }
  const { result, headers } = await askMarkets(asked, at, signal);
  const rows = result.items;
  // Favourites without a price have no position in the order, so they come last.
  const unpriced = now.view === "favourites" && new URLSearchParams(headers.get("X-Not-Found") ?? "").get("id");
  if (unpriced) {
    const { items } = (await ask("assets", { id: unpriced, size: 100 }, at, signal)).result;
    if (now.page === result.total_page) rows.push(...items);
    result.total += items.length;
  }
  const prices = rows.length > 0 && lined.matches && Promise.all(chunks(rows).map((rows) =>
    ask("history", { id: rows.map((row) => row.id).join(","), window: "7d", size: historySize }, at, signal).then(
      ({ result }) => rows.map((row) => result.items.find((item) => item.id === row.id)?.points ?? []),
      () => rows.map(() => null), // showLines reports it
    )));
  if (quietly) await prices; // otherwise the lines would blink
  return { result, prices, signal };
}

// askMarkets asks for quotes in an order. The snapshots of older builders have no markets. For them it asks
// for assets and then for their quotes, if the order is one that /assets has.
async function askMarkets(parameters, at, signal) {
  try {
    return await ask("markets", parameters, at, signal);
  } catch (problem) {
    if (problem.status !== 503 || parameters.category || parameters.chain || !/^(rank|name|symbol):/.test(parameters.sort)) throw problem;
  }
  const { result, headers } = await ask("assets", parameters, at, signal);
  const id = result.items.map((row) => row.id).join(",");
  const quotes = id ? (await ask("quotes", { id, size: 100 }, at, signal)).result.items : [];
  for (const row of result.items) Object.assign(row, quotes.find((quote) => quote.id === row.id));
  return { result, headers };
}

const chunks = (rows) => Array.from({ length: Math.ceil(rows.length / historySize) }, (_, i) => rows.slice(i * historySize, (i + 1) * historySize));

// showLines waits for the prices of seven days, and draws them into the rows.
async function showLines(rows, prices, signal) {
  const all = (await prices).flat();
  if (signal.aborted) return;
  for (const [i, { line: box, percent_change: changes }] of rows.entries()) {
    const points = all[i];
    box.className = "line " + (changes ? change(changes["7d"]).sign : "");
    if (points?.length) {
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", "From " + price(points[0][1]) + " to " + price(points.at(-1)[1]));
      line(box, points, seconds(pin));
    } else {
      box.replaceChildren(element("span", { title: points ? "no prices are available" : "could not be loaded" }, "\u2013"));
    }
  }
}

let listing; // the view and URL of the last listing shown, which a detail page links to
let opened = ""; // the URL of the detail page that is shown

function showListing(now, { result, prices, signal }, newer) {
  const rows = result.items;
  const view = views[now.view];
  if (rows.length === 0 && now.page > result.total_page && result.total_page > 0) { // for example from an old link
    history.replaceState(history.state, "", addressOf({ page: result.total_page }));
    queueMicrotask(() => load(pin, true));
    return;
  }
  drawn.table = tableOf(now);
  showHead(now);
  const body = $("table").tBodies[0];
  const before = new Map(newer ? [...body.rows].map((row) => [row.dataset.id, row.cells]) : []);
  body.replaceChildren(
    ...rows.map((row) => element("tr", { "data-id": row.id }, ...view.columns.map((column) => element("td", { class: classOf(column, now) }, element("div", {}, column.cell(row)))))),
  );
  for (const { dataset, cells } of body.rows) {
    for (const [i, cell] of [...(before.get(dataset.id) ?? [])].entries()) if (!cells[i].matches(".who, .lines")) tint(cells[i], cell);
  }
  if (prices) showLines(rows, prices, signal);
  if (rows.length === 0) body.append(element("tr", {}, element("td", { class: "empty", colspan: view.columns.length }, now.view === "favourites" ? "None yet. Star an asset to add it. The list is saved only in this browser." : "Nothing is listed.")));
  pages = result.total_page;
  turn($("previous"), $("next"), now.page <= 1);
  turn($("next"), $("previous"), now.page >= pages);
  const whole = (number) => roundDecimal(String(number), 0);
  $("numbers").replaceChildren(...numbered(now));
  $("rows").value = now.rows;
  $("where").textContent = "Page " + whole(now.page) + " of " + whole(result.total_page) + ", " + whole(result.total) + (result.total === 1 ? " row" : " rows");
  if (!now.filter) {
    document.title = view.title + " \u00b7 Market board";
    listing = { view: now.view, address: location.search || "?view=assets" };
  }
  if (opened) [...$("table").querySelectorAll("a")].find((link) => link.getAttribute("href") === opened)?.focus();
  opened = "";
}

function showHead(now) {
  const view = views[now.view];
  $("listing-title").textContent = $("table").caption.textContent = view.title;
  $("table").tHead.replaceChildren(element("tr", {}, ...view.columns.map((column) => heading(column, now))));
  for (const link of $("views").children) {
    if (link.getAttribute("href") !== "?view=" + now.view) link.removeAttribute("aria-current");
    else {
      link.setAttribute("aria-current", "page");
      $("views").scrollLeft = link.offsetLeft - $("views").offsetLeft; // so that it is visible if not all of them fit
    }
  }
  $("views").hidden = Boolean(now.filter);
  $("listing-title").classList.toggle("hidden", !now.filter);
  $("orders").hidden = view.kind !== "asset";
  $("orders").replaceChildren(...Object.entries(orders).map(([title, sort]) =>
    element("a", { href: addressOf({ sort, page: 1 }), ...(sort === now.sort && { "aria-current": "true" }) }, title)));
  $("order").replaceChildren(...sortable(now.view).flatMap((column) =>
    [["asc", "\u2191"], ["desc", "\u2193"]].map(([direction, arrow]) => element("option", { value: column.sort + ":" + direction }, (column.says ?? column.title) + " " + arrow))));
  $("order").value = now.sort;
  $("order").parentElement.hidden = sortable(now.view).length === 0;
}

function numbered(now) {
  const near = [1, now.page - 1, now.page, now.page + 1, pages].filter((page, i, all) => page >= 1 && page <= pages && all.indexOf(page) === i);
  return near.sort((a, b) => a - b).flatMap((page, i) => [
    ...(i > 0 && page > near[i - 1] + 1 ? ["\u2026"] : []),
    element("a", { href: addressOf({ page }), "aria-label": "Page " + page, ...(page === now.page && { "aria-current": "page" }) }, String(page)),
  ]);
}

function turnTo(page) {
  go({ page });
  toTop();
}

function toTop() {
  if ($("listing").getBoundingClientRect().top < 0) $("listing").scrollIntoView();
}

// turn enables or disables a button. If a disabled button had the focus, the button other gets it.
function turn(button, other, off) {
  if (off && document.activeElement === button) {
    other.disabled = false;
    other.focus();
  }
  button.disabled = off;
}

// classOf returns the class of a column. The column that rows are sorted by is visible in every window. If
// narrow windows would hide it, they hide the last of the remaining columns instead.
function classOf(column, now) {
  const { columns } = views[now.view];
  const by = columns.find(({ sort }) => now.sort?.startsWith(sort + ":"));
  const wide = column === by ? 0 : column.wide ?? (by?.wide && column === columns.findLast(({ wide }) => !wide) && 1);
  return [column.style, wide && "wide" + wide].filter(Boolean).join(" ");
}

function heading(column, now) {
  const th = element("th", { scope: "col", class: classOf(column, now) });
  if (!column.sort) {
    th.append(column.title || element("span", { class: "hidden" }, column.says));
    return th;
  }
  const [key, direction] = now.sort.split(":");
  for (const { sort, title, says } of [column, column.also].filter(Boolean)) {
    const active = key === sort;
    if (active) th.setAttribute("aria-sort", direction === "asc" ? "ascending" : "descending");
    const button = element("button", { type: "button", "data-sort": sort, ...(says && { "aria-label": says }), ...(active && { class: "on" }) }, title);
    button.addEventListener("click", () => {
      const first = ["rank", "name", "symbol"].includes(sort) ? "asc" : "desc";
      const other = direction === "asc" ? "desc" : "asc";
      go({ sort: sort + ":" + (active ? other : first), page: 1 });
    });
    th.append(button);
  }
  return th;
}

let shownPrices = new Map(); // by the ids of the assets
let news = { text: "", until: 0 };

// tellNews says how many of the prices on the page differ from the previous snapshot.
function tellNews(rows, newer) {
  const before = shownPrices;
  shownPrices = new Map(rows.map((row) => [row.id, row.price]));
  const both = rows.filter((row) => newer && row.price && before.has(row.id));
  if (both.length === 0) return;
  const n = both.filter((row) => row.price !== before.get(row.id)).length;
  news = { text: both.length === 1 ? (n ? "the price changed" : "the same price") : n + " of " + both.length + " prices changed", until: performance.now() + newsFor };
  $("news").textContent = "New snapshot: " + news.text;
}

// tint marks a cell whose text has changed. It compares all digits of prices, as tellNews does, and marks
// their direction.
function tint(now, before) {
  const priced = now.matches(".price"), decimal = /^[\d.]+$/;
  const [is, was] = [now, before].map((one) => (priced && one.querySelector("[title]")?.title) || one.textContent);
  if (is === was) return;
  now.classList.add("fresh", ...(priced && decimal.test(is) && decimal.test(was) ? [less(was, is) ? "rose" : "fell"] : []));
}

// setClock notes the server's time, because the clock of this machine may be wrong. It must not be called
// with the headers of a cached answer, whose time is old.
function setClock(headers) {
  clock = (Date.parse(headers.get("Date")) || Date.now()) - performance.now();
}

// showAge shows the time of the snapshot, when the next one is due, and whether this board would learn
// about it.
function showAge() {
  if (!pin) return;
  const age = Math.floor((performance.now() + clock - Date.parse(pin)) / 1000);
  const minutes = Math.floor(Math.max(age, 0) / 60);
  const stale = age > staleAfter, left = Math.min(interval - age, interval);
  const said = minutes < 1 ? "just now" : minutes < 120 ? minutes + " min ago" : minutes < 2880 ? Math.floor(minutes / 60) + " h ago" : Math.floor(minutes / 1440) + " days ago";
  const next = !reachable ? "unreachable" : dropped ? "reconnecting" : performance.now() < news.until ? news.text
    : stale ? "stale" : left > 0 ? "next in " + Math.floor(left / 60) + ":" + String(left % 60).padStart(2, "0") : "next is due";
  const [date, ...clocked] = utc(pin).split(" ");
  $("age").firstChild.textContent = "Snapshot of " + date + " ";
  $("age").lastChild.textContent = clocked.join(" ") + ", " + said + ", " + next;
  $("age").title = "Snapshot of " + utc(pin) + "; local time: " + local(pin);
  $("age").className = [stale && "stale", !reachable ? "red" : dropped ? "amber" : ""].filter(Boolean).join(" ");
}

let following = null; // ends the stream of events
let hearing = false; // whether the stream of events is open
let dropped = false; // whether the stream has ended or could not be opened

// follow reads the stream of events, which names each snapshot that becomes current. It does so only while
// the page is visible, because the streams of a key and the connections of a browser to a host are limited.
// It does not use EventSource, which cannot send the key.
async function follow() {
  if (following || document.hidden || needsKey()) return;
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
      dropped = false;
      failures = 0;
      await hear(stream.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.status === 401) return fail(problem);
      wait = 1000 * problem.retryAfter || 0;
      failures++;
      // Perhaps a proxy refuses only streams: this request shows whether the edge is reachable.
      if (!(problem instanceof Problem)) await ask("global", {}, "", signal).catch(() => {});
    } finally {
      if (following?.signal === signal) {
        hearing = false;
        dropped = true;
        showAge();
      }
    }
    await pause(Math.max(wait, Math.min(retryFirst * 2 ** failures, retryLast)) + Math.random() * spread);
  }
}

function unfollow() {
  following?.abort();
  following = null;
  hearing = dropped = false;
}

// hear reads events until the stream ends or has been silent for too long.
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

// renew moves the page to the current snapshot after a random delay. If something else is being loaded, load
// calls renew again afterwards.
function renew() {
  if (renewal || !hearing || current === pin) return;
  renewal = setTimeout(() => {
    renewal = 0;
    if (!busy && hearing && current !== pin) load(current, true);
  }, Math.random() * spread);
}

// look asks for a newer snapshot while there are no events, and offers it.
async function look() {
  if (hearing || !pin || document.hidden) return;
  try {
    const { headers } = await ask("global", {}, "", null);
    setClock(headers);
    if (hearing || headers.get("X-Snapshot-Time") === current) return;
    current = headers.get("X-Snapshot-Time");
    offer();
  } catch {
    // The page shows its age, and look is called again soon.
  }
}

const offer = () => note("There is a newer snapshot.", "Show it", start);

function askForKey() {
  unfollow();
  running?.abort();
  pin = current = overview = "";
  for (const id of ["board", "detail", "listing", "forget", "search", "problem", "age"]) $(id).hidden = true;
  drawn.table = drawn.detail = "";
  $("key-form").hidden = false;
  $("key").focus();
}

const noteKey = () => note("This key is incomplete: a key is mdk_live_ followed by 39 letters and digits.");

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!takeKey($("key").value.trim())) return noteKey();
  $("key").value = "";
  start();
});
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="?"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  visit(link.getAttribute("href"));
  if (link.closest("#pages")) toTop();
});
// A click on a row follows the link of its name, unless it hits another link or button, or text is selected.
for (const type of ["click", "auxclick"]) {
  $("table").addEventListener(type, (event) => {
    const link = event.target.closest("tbody tr")?.querySelector("a.coin");
    if (!link || event.button > 1 || event.target.closest("a, button") || !getSelection().isCollapsed) return;
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) open(link.href, "_blank", "noopener");
    else link.click();
  });
}
$("previous").addEventListener("click", () => turnTo(Math.min(state().page - 1, pages)));
$("next").addEventListener("click", () => turnTo(state().page + 1));
$("rows").append(...perPage.map((rows) => element("option", {}, String(rows))));
$("rows").addEventListener("change", () => {
  const now = state();
  const rows = Number($("rows").value);
  go({ rows, page: Math.floor(((now.page - 1) * now.rows) / rows) + 1 }); // the page that contains the first row of the current one
  toTop();
});
// A table that is too wide scrolls sideways. In some browsers its head then no longer stays in view.
const fitting = new ResizeObserver(() => {
  const fits = $("table").offsetWidth <= $("scroll").clientWidth;
  $("scroll").classList.toggle("scroll", !fits);
  $("scroll").tabIndex = fits ? -1 : 0;
});
for (const id of ["table", "scroll"]) fitting.observe($(id));
$("order").addEventListener("change", () => go({ sort: $("order").value, page: 1 }));
$("whole").addEventListener("click", () => {
  charted.chart.zoom(...charted.chart.whole);
  $("plot").focus();
});
$("dated").addEventListener("submit", askDated);
$("forget").addEventListener("click", () => {
  dropKey(true);
  askForKey();
});
addEventListener("popstate", (event) => {
  if (needsKey()) return;
  place = event.state?.y ?? 0;
  load(pin);
});
addEventListener("scrollend", () => busy || history.replaceState({ y: scrollY }, ""));
document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
lined.addEventListener("change", () => pin && load(pin, true));
addEventListener("theme", () => charted.chart && load(pin, true)); // because the chart is drawn in the colours of the theme
setInterval(showAge, 1_000);
setInterval(look, lookEvery);
addEventListener("hashchange", () => {
  const came = keyOfAddress();
  if (came !== undefined) begin(came);
});
toldByTabs(() => {
  unfollow();
  start();
});
begin(keyCame);

async function begin(came) {
  if (came) unfollow(); // the stream was opened with another key
  await noticed;
  if (needsKey() && came === undefined) await keyOfTabs();
  await start();
  if (came === false) noteKey();
}
