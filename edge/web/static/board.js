// The market board, on the same public API that everybody has. Names come from
// feeds and are hostile until proven otherwise: they reach the page as text,
// never as markup. Logos are loaded from the origins alone that the operator names, and
// links are there to be followed by the reader, if they lead to the web. Decimals stay strings (numbers.js),
// and a title has them in full.
"use strict";

const perPage = [20, 50, 100]; // rows of a page: the first unless the reader chooses
const historySize = 20; // no more than /history takes
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
const logoOrigins = document.querySelector("meta[name=logos]").content.split(" ");
const narrow = matchMedia("(max-width: 44rem)"); // as board.css has it: no wide columns

// --- elements --------------------------------------------------------------

// element makes one; children that are strings become text.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const count = (number) => (number == null ? nothing() : roundDecimal(String(number), 0));
const volume = (text) => exact(text === "0" ? null : text, money); // the API has no other word for unknown
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

const keyHeader = () => heldKey() && { "X-Api-Key": heldKey() };

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

// The columns of each view: a title and what it is read as, how a row's cell looks,
// and the sort key if the API has one. kind is what a row is.
const views = {
  assets: {
    title: "Assets",
    kind: "asset",
    sort: "rank:asc",
    columns: [
      { title: "", says: "Favourite", style: "starred", cell: (row) => star(row) },
      { title: "#", says: "Rank", sort: "rank", style: "rank", cell: (row) => (row.rank ? String(row.rank) : nothing()) },
      { title: "Name", sort: "name", text: true, cell: (row) => named(row, "asset") },
      { title: "Symbol", sort: "symbol", text: true, wide: true, cell: (row) => element("span", { class: "symbol" }, row.symbol) },
      { title: "Price", cell: (row) => exact(row.quote?.price, price) },
      { title: "1 h", wide: true, cell: (row) => changed(row.quote?.percent_change["1h"]) },
      { title: "24 h", cell: (row) => changed(row.quote?.percent_change["24h"]) },
      { title: "7 d", wide: true, cell: (row) => changed(row.quote?.percent_change["7d"]) },
      { title: "Market cap", wide: true, cell: (row) => exact(row.quote?.market_cap, money) },
      { title: "Volume 24 h", wide: true, cell: (row) => volume(row.quote?.volume) },
      { title: "Last 7 days", wide: true, cell: (row) => (row.line = element("div", { class: "line skeleton" })) },
    ],
  },
  categories: { title: "Categories", kind: "category", sort: "market_cap:desc", columns: groupColumns("category") },
  chains: { title: "Chains", kind: "chain", sort: "market_cap:desc", columns: groupColumns("chain") },
  exchanges: {
    title: "Exchanges",
    kind: "exchange",
    sort: "volume:desc",
    columns: [
      { title: "Name", sort: "name", text: true, cell: (row) => named(row, "exchange") },
      { title: "Volume 24 h", sort: "volume", cell: (row) => exact(row.market?.volume_24h, money) },
      { title: "Markets", cell: (row) => count(row.market?.markets_count) },
      { title: "Coins", wide: true, cell: (row) => count(row.market?.coins_count) },
      { title: "Maker fee", wide: true, cell: (row) => row.fees.maker },
      { title: "Taker fee", wide: true, cell: (row) => row.fees.taker },
      { title: "As of", wide: true, cell: (row) => (row.market?.data_time ? utc(row.market.data_time) : nothing()) },
    ],
  },
};

views.favourites = { ...views.assets, title: "Favourites" };

function groupColumns(kind) {
  return [
    { title: "Name", sort: "name", text: true, cell: (row) => named(row, kind) },
    { title: "Market cap", sort: "market_cap", cell: (row) => exact(row.market.market_cap, money) },
    { title: "Share", cell: (row) => shared(row.market.market_cap_share) },
    { title: "Volume 24 h", sort: "volume_24h", wide: true, cell: (row) => volume(row.market.volume_24h) },
    { title: "Coins", wide: true, cell: (row) => count(row.market.coins_count) },
    { title: "Top gainers", text: true, wide: true, cell: (row) => gainers(row) },
  ];
}

const gainers = (row) =>
  row.market.top_gainers.length ? element("span", { class: "gainers" }, ...row.market.top_gainers.map((coin) => element("a", { href: pageOf(coin, "asset"), title: coin.name }, coin.symbol))) : nothing();

function named(row, kind) {
  const name = element("span", { class: "name", title: row.slug }, row.name);
  return element("a", { class: "coin", href: pageOf(row, kind) }, mark(row), element("span", {}, name, ...(row.symbol ? [element("span", { class: "symbol" }, row.symbol)] : [])));
}

// pageOf is the address of a detail page: of an asset by its slug, which is unique,
// where a filter takes it for one value; of all else by its id.
const pageOf = (row, kind, window) =>
  "?" + new URLSearchParams({ ...(kind !== "asset" ? { [kind]: row.id } : /^[^,]+$/.test(row.slug) ? { asset: row.slug } : { id: row.id }), ...(window && window !== "7d" && { window }) });

// mark is a monogram, and the logo over it if its host is one of the operator's.
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

// state is what the address says, so that reload, back and links work: a detail page,
// or a page of a listing.
function state() {
  const parameters = new URLSearchParams(location.search);
  const get = (name, format) => (format.test(parameters.get(name) ?? "") ? parameters.get(name) : undefined);
  const window = Object.hasOwn(windows, parameters.get("window")) ? parameters.get("window") : "7d";
  if (parameters.get("asset")) return { kind: "asset", filter: { slug: parameters.get("asset") }, window };
  for (const name of ["id", "exchange", "category", "chain"]) {
    const id = get(name, /^\d{1,16}$/);
    if (id) return { kind: name === "id" ? "asset" : name, filter: { id }, window };
  }
  const view = Object.hasOwn(views, parameters.get("view")) ? parameters.get("view") : "assets";
  const rows = perPage.find((rows) => String(rows) === parameters.get("rows")) ?? perPage[0];
  const page = Number(get("page", /^[1-9]\d{0,8}$/) ?? 1);
  const [key, direction] = (parameters.get("sort") || "").split(":");
  const sort = sortKeys(view).includes(key) && (direction === "asc" || direction === "desc") ? key + ":" + direction : views[view].sort;
  return { view, page, rows, sort };
}

const sortKeys = (view) => views[view].columns.map((column) => column.sort).filter(Boolean);

// addressOf is the address of another state of the listing.
function addressOf(changes) {
  const next = { ...state(), ...changes };
  const parameters = new URLSearchParams({ view: next.view });
  if (next.sort !== views[next.view].sort) parameters.set("sort", next.sort);
  if (next.rows !== perPage[0]) parameters.set("rows", next.rows);
  if (next.page > 1) parameters.set("page", next.page);
  return "?" + parameters;
}

const go = (changes) => visit(addressOf(changes));

// visit shows another address. Each entry of the history knows how far the reader had
// scrolled: what is shown comes too late for the browser to do so.
function visit(address) {
  history.replaceState({ y: scrollY }, "");
  if (address !== location.search) history.pushState(null, "", address);
  load(pin);
}

history.scrollRestoration = "manual";
let place = history.state?.y; // to scroll to when it is shown

let pin = ""; // the snapshot that everything on the page is from
let current = ""; // the one that is in force, as far as is known
let overview = ""; // the one that totals and trending are from
let clock = null; // milliseconds from performance.now() to the server's time
let pages = 1; // of the listing
let running = null; // aborts what is being loaded, and what was last
let busy = false; // something is

// load shows what the address says, from the snapshot of a time or, "", from the one
// in force. Quietly, what is shown stands meanwhile.
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
  const over = !now.filter && overview !== at && Promise.all([totals ?? ask("global", {}, at, signal), ask("trending", {}, at, signal)]);
  const [main, summary] = await Promise.all([now.filter ? askDetail(now, at, signal) : askListing(now, at, signal, quietly), over]);
  signal.throwIfAborted();
  pin = at;
  shareKey();
  showAge();
  $("key-form").hidden = true;
  $("forget").hidden = auth === "off";
  if (quietly) $("problem").hidden = true;
  keepingFocus(() => {
    turnOver(now);
    if (summary) {
      overview = at;
      showTotals(summary[0].result);
      showTrending(summary[1].result.items);
    }
    if (now.filter) showDetail(now, main);
    else showListing(now, main);
  });
  if (quietly || place === undefined) return;
  scrollTo(0, place);
  place = undefined;
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
  $("board").hidden ||= !drawn.board;
  $("detail").hidden ||= !drawn.detail;
  if (problem.status === 401) {
    const known = heldKey() !== null;
    dropKey();
    askForKey();
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
const start = () => (needsKey() ? askForKey() : load(""));

const drawn = { board: false, detail: "" }; // what stands there, hidden or not
let came = false; // to a page that the reader was not on

// showWaiting turns to what is loaded. Skeletons stand where nothing of it is shown
// yet; what is shown waits as board.css has it.
function showWaiting(now) {
  $("key-form").hidden = true;
  if (now.filter) {
    const other = pin && ($("detail").hidden || drawn.detail !== detailOf(now));
    if (other && place === undefined) scrollTo(0, 0);
    came ||= other;
    if (drawn.detail !== detailOf(now)) showDetailSkeleton(now);
  } else if (!drawn.board) {
    came = false;
    showHead(now);
    $("where").textContent = "Loading";
    $("totals").replaceChildren(...Array.from({ length: 3 }, () => element("div", {}, element("dt", {}, bar()), element("dd", {}, bar()))));
    $("trending").replaceChildren(...Array.from({ length: trendingShown }, () => element("li", {}, bar())));
    $("table").tBodies[0].replaceChildren(...Array.from({ length: now.rows }, () => element("tr", {}, ...views[now.view].columns.map((column) => element("td", { class: classOf(column) }, bar())))));
  }
  turnOver(now);
}

// turnOver has either the listing or a detail page in sight.
function turnOver(now) {
  $("board").hidden = Boolean(now.filter);
  $("detail").hidden = !now.filter;
  $("search").hidden = false;
}

const bar = () => element("span", { class: "skeleton" }, "\u2007");

function showTotals(totals) {
  $("totals").replaceChildren(
    entry("Market cap", exact(totals.total_market_cap, money)),
    entry("Volume 24 h", volume(totals.total_volume_24h)),
    entry("Change 24 h", changed(totals.total_market_cap_change_percentage_24h)),
  );
}

function showTrending(items) {
  $("trending").replaceChildren(
    ...items.slice(0, trendingShown).map((row) =>
      element("li", {}, mark(row), element("a", { class: "symbol", title: row.symbol, href: pageOf(row, "asset") }, row.symbol), changed(row.percent_change["24h"]),
        element("span", { class: "name", title: row.name }, row.name), element("span", { class: "price" }, exact(row.price, price)))),
  );
  $("trending-none").hidden = items.length > 0;
}

// askListing asks for one page of the view, and for the prices of its assets.
async function askListing(now, at, signal, quietly) {
  const { kind } = views[now.view];
  const chosen = now.view === "favourites" && { id: favourites.length ? favourites.join(",") : "," }; // a comma is a list without a value
  const { result } = await ask(kind === "asset" ? "assets" : now.view, { ...chosen, sort: now.sort, page: now.page, size: now.rows }, at, signal);
  const rows = result.items;
  if (kind !== "asset" || rows.length === 0) return { result };
  const id = rows.map((row) => row.id).join(",");
  const prices = !narrow.matches && Promise.all(chunks(rows).map((rows) =>
    ask("history", { id: rows.map((row) => row.id).join(","), window: "7d", size: historySize }, at, signal).then(
      ({ result }) => rows.map((row) => result.items.find((item) => item.id === row.id)?.points ?? []),
      () => rows.map(() => null), // the lines say so
    )));
  const quotes = await ask("quotes", { id, size: 100 }, at, signal);
  const byID = new Map(quotes.result.items.map((quote) => [quote.id, quote]));
  for (const row of rows) row.quote = byID.get(row.id);
  if (quietly) await prices; // so that no line blinks
  return { result, prices, signal };
}

const chunks = (rows) => Array.from({ length: Math.ceil(rows.length / historySize) }, (_, i) => rows.slice(i * historySize, (i + 1) * historySize));

let lines = []; // that are drawn

// showLines draws the prices of seven days into rows, when they are there.
async function showLines(rows, prices, signal) {
  const all = (await prices).flat();
  if (signal.aborted) return;
  for (const [i, row] of rows.entries()) {
    const points = all[i];
    row.line.classList.remove("skeleton");
    if (points?.length) {
      const sign = row.quote && change(row.quote.percent_change["7d"]).sign;
      row.line.setAttribute("role", "img");
      row.line.setAttribute("aria-label", "From " + price(points[0][1]) + " to " + price(points.at(-1)[1]));
      lines.push(line(row.line, points, sign || "soft"));
    } else {
      row.line.replaceChildren(element("span", { title: points ? "no prices are kept" : "could not be loaded" }, "\u2013"));
    }
  }
}

let listing; // the last that was shown, which a detail page leads back to: its view and address
let opened = ""; // the address of the detail page that is shown

function showListing(now, { result, prices, signal }) {
  const rows = result.items;
  const view = views[now.view];
  drawn.board = true;
  showHead(now);
  for (const old of lines.splice(0)) old.destroy();
  $("table").tBodies[0].replaceChildren(
    ...rows.map((row) => element("tr", {}, ...view.columns.map((column) => element("td", { class: classOf(column) }, element("div", {}, column.cell(row)))))),
  );
  if (prices) showLines(rows, prices, signal);
  if (rows.length === 0) $("table").tBodies[0].append(element("tr", {}, element("td", { class: "empty", colspan: view.columns.length }, result.total > 0 ? "There is no such page." : now.view === "favourites" ? "None yet. The star of an asset puts it here; this browser alone keeps the list." : "Nothing is listed.")));
  pages = result.total_page;
  turn($("previous"), $("next"), now.page <= 1);
  turn($("next"), $("previous"), now.page >= pages);
  const whole = (number) => roundDecimal(String(number), 0);
  $("numbers").replaceChildren(...numbered(now));
  $("rows").value = now.rows;
  $("where").textContent = "Page " + whole(now.page) + " of " + whole(result.total_page) + ", " + whole(result.total) + (result.total === 1 ? " row" : " rows");
  document.title = view.title + " \u00b7 Market board";
  listing = { view: now.view, address: location.search || "?view=assets" };
  if (opened) [...$("table").querySelectorAll("a")].find((link) => link.getAttribute("href") === opened)?.focus();
  opened = "";
}

// showHead shows what is known of a listing before its rows are.
function showHead(now) {
  const view = views[now.view];
  $("listing-title").textContent = $("table").caption.textContent = view.title;
  $("table").tHead.replaceChildren(element("tr", {}, ...view.columns.map((column) => heading(column, now))));
  for (const link of $("views").children) {
    if (link.getAttribute("href") === "?view=" + now.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("order").replaceChildren(...view.columns.filter((column) => column.sort).flatMap((column) =>
    [["asc", "\u2191"], ["desc", "\u2193"]].map(([direction, arrow]) => element("option", { value: column.sort + ":" + direction }, (column.says ?? column.title) + " " + arrow))));
  $("order").value = now.sort;
}

// numbered are links to the first page, to those around this one, and to the last.
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

// toTop brings the reader to the listing's first row, if that is further up.
function toTop() {
  if ($("listing").getBoundingClientRect().top < 0) $("listing").scrollIntoView();
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
    th.append(column.title || element("span", { class: "hidden" }, column.says));
    return th;
  }
  const [key, direction] = now.sort.split(":");
  const active = key === column.sort;
  if (active) th.setAttribute("aria-sort", direction === "asc" ? "ascending" : "descending");
  const button = element("button", { type: "button", "data-sort": column.sort, ...(column.says && { "aria-label": column.says }) }, column.title);
  button.addEventListener("click", () => {
    const first = ["rank", "name", "symbol"].includes(column.sort) ? "asc" : "desc";
    const other = direction === "asc" ? "desc" : "asc";
    go({ sort: column.sort + ":" + (active ? other : first), page: 1 });
  });
  th.append(button);
  return th;
}

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
  const said = minutes < 1 ? "just now" : minutes < 120 ? minutes + " min ago" : minutes < 2880 ? Math.floor(minutes / 60) + " h ago" : Math.floor(minutes / 1440) + " days ago";
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

// askForKey shows nothing but the question.
function askForKey() {
  unfollow();
  running?.abort();
  pin = current = overview = "";
  $("board").hidden = $("detail").hidden = $("forget").hidden = $("search").hidden = $("problem").hidden = true;
  drawn.board = false;
  drawn.detail = "";
  $("age").textContent = "";
  $("key-form").hidden = false;
  $("key").focus();
}

const noteKey = () => note("This is not a whole key: one begins with mdk_live_ and has 39 letters and digits behind it.");

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
$("previous").addEventListener("click", () => turnTo(Math.min(state().page - 1, pages)));
$("next").addEventListener("click", () => turnTo(state().page + 1));
$("rows").append(...perPage.map((rows) => element("option", {}, String(rows))));
$("rows").addEventListener("change", () => {
  const now = state();
  const rows = Number($("rows").value);
  go({ rows, page: Math.floor(((now.page - 1) * now.rows) / rows) + 1 }); // the first row stays on it
  toTop();
});
// Where a table scrolls sideways, its head stays in view in some browsers only.
const fitting = new ResizeObserver(() => {
  const fits = $("table").offsetWidth <= $("scroll").clientWidth;
  $("scroll").classList.toggle("scroll", !fits);
  $("scroll").tabIndex = fits ? -1 : 0;
});
for (const id of ["table", "scroll"]) fitting.observe($(id));
$("order").addEventListener("change", () => go({ sort: $("order").value, page: 1 }));
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
for (const query of [narrow, matchMedia("(prefers-color-scheme: dark)")]) query.addEventListener("change", () => pin && load(pin, true)); // what is drawn has colours
setInterval(showAge, 10_000);
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

// begin shows the board when the key, if one is needed, is there.
async function begin(came) {
  if (came) unfollow(); // that was with another one
  if (needsKey() && came === undefined) await keyOfTabs();
  await start();
  if (came === false) noteKey();
}
