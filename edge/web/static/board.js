// The market board, on the same public API that everybody has. Names come from
// feeds and are hostile until proven otherwise: they reach the page as text,
// never as markup, and links and images of feeds are not followed. Decimals stay
// strings; BigInt rounds them for the eye, and a title has them in full.
"use strict";

const pageSize = 20;
const staleAfter = 20 * 60; // seconds, as the header Cache-Status has it
const checkEvery = 60; // seconds between two looks for a newer snapshot
const trendingShown = 8;

const $ = (id) => document.getElementById(id);
const auth = document.querySelector("meta[name=auth]").content;
const storedKey = "market-board-key";
const keyFormat = /^mdk_live_[0-9A-Za-z]{39}$/;

// --- numbers ---------------------------------------------------------------

// parseDecimal reads plain notation: digits as a BigInt, and how many of them
// stand behind the point.
function parseDecimal(text) {
  const [whole, fraction = ""] = text.split(".");
  return { digits: BigInt(whole + fraction), places: fraction.length };
}

// roundDecimal rounds to a number of decimal places, half away from zero, and
// keeps exactly that many.
function roundDecimal(text, places) {
  let { digits, places: has } = parseDecimal(text);
  const negative = digits < 0n || text.startsWith("-");
  if (digits < 0n) digits = -digits;
  if (has > places) {
    const unit = 10n ** BigInt(has - places);
    digits = (digits + unit / 2n) / unit;
  } else {
    digits *= 10n ** BigInt(places - has);
  }
  const all = digits.toString().padStart(places + 1, "0");
  const cut = all.length - places;
  const whole = all.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, ",");
  return (negative && digits > 0n ? "-" : "") + whole + (places > 0 ? "." + all.slice(cut) : "");
}

// price shows two places from 1 on, and four significant digits below.
function price(text) {
  const zeros = /^0\.(0*)[1-9]/.exec(text);
  return "$" + roundDecimal(text, zeros ? zeros[1].length + 4 : 2);
}

// money shows a large amount in thousands, millions and so on.
function money(text) {
  const length = text.split(".")[0].length;
  const step = Math.min(Math.floor((length - 1) / 3), 4);
  if (step === 0) return "$" + roundDecimal(text, 2);
  const { digits, places } = parseDecimal(text);
  const shifted = digits.toString().padStart(places + 3 * step + 1, "0");
  const point = shifted.length - places - 3 * step;
  return "$" + roundDecimal(shifted.slice(0, point) + "." + shifted.slice(point), 2) + "\u00a0" + ["", "K", "M", "B", "T"][step];
}

// share shows a ratio of 0 to 1 in percent.
function share(text) {
  const { digits, places } = parseDecimal(text);
  const shifted = (digits * 100n).toString().padStart(places + 1, "0");
  const point = shifted.length - places;
  return roundDecimal(shifted.slice(0, point) + "." + shifted.slice(point), 2) + "%";
}

// change returns what a percentage looks like: never by its colour alone.
function change(text) {
  const rounded = roundDecimal(text, 2);
  const zero = /^-?0\.00$/.test(rounded);
  if (zero) return { text: "0.00%", sign: "" };
  return rounded.startsWith("-") ? { text: "\u2212" + rounded.slice(1) + "%", sign: "down" } : { text: "+" + rounded + "%", sign: "up" };
}

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

// ask returns the result of an endpoint and the answer's headers. A pin asks for
// the snapshot of that time.
async function ask(path, parameters, pin, signal) {
  const headers = {};
  const key = sessionStorage.getItem(storedKey);
  if (auth === "keys" && key) headers["X-Api-Key"] = key;
  if (pin) headers["X-Snapshot-Time"] = pin;
  const query = new URLSearchParams(parameters).toString();
  const response = await fetch("/openapi/v1/" + path + (query ? "?" + query : ""), { headers, signal, cache: pin ? "default" : "no-cache" });
  const envelope = await response.json();
  if (!response.ok) throw new Problem(response.status, envelope, response.headers.get("Retry-After"));
  return { result: envelope.result, headers: response.headers };
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
  return element("span", { class: "coin" }, mark(row), element("span", { class: "name", title: row.slug }, row.name), element("span", { class: "symbol" }, row.symbol));
}

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
  const view = Object.hasOwn(views, parameters.get("view")) ? parameters.get("view") : "assets";
  const page = /^[1-9]\d{0,8}$/.test(parameters.get("page")) ? Number(parameters.get("page")) : 1;
  const keys = views[view].columns.map((column) => column.sort).filter(Boolean);
  const [key, direction] = (parameters.get("sort") || "").split(":");
  const sort = keys.includes(key) && (direction === "asc" || direction === "desc") ? key + ":" + direction : views[view].sort;
  return { view, page, sort, symbol: view === "assets" ? parameters.get("symbol") || "" : "" };
}

// go shows another state.
function go(changes) {
  const next = { ...state(), ...changes };
  const parameters = new URLSearchParams({ view: next.view });
  if (next.sort !== views[next.view].sort) parameters.set("sort", next.sort);
  if (next.page > 1) parameters.set("page", next.page);
  if (next.symbol) parameters.set("symbol", next.symbol);
  history.pushState(null, "", "?" + parameters);
  load(() => showListing());
}

let pin = ""; // the snapshot that everything on the page is from
let newer = ""; // one that came since
let age = null; // of the snapshot, in seconds, and when it was that
let pages = 1; // of the listing
let running = null; // aborts what is being loaded

// load does some work of the page and shows what goes wrong.
async function load(work) {
  running?.abort();
  const mine = (running = new AbortController());
  $("problem").hidden = true;
  $("table").setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (problem) {
    if (mine.signal.aborted) return;
    fail(problem);
  } finally {
    if (running === mine) $("table").removeAttribute("aria-busy");
  }
}

function fail(problem) {
  if (problem.status === 401) {
    const known = sessionStorage.getItem(storedKey) !== null;
    forget();
    if (known) note("This key is not in force: it may be mistyped, revoked or expired.");
    return;
  }
  if (problem.key === "SNAPSHOT_GONE") {
    note("The snapshot that this page was from is no longer kept.", "Show the newest", start);
  } else if (problem.key === "NOT_FOUND") {
    note("There is no snapshot yet.", "Try again", start);
  } else if (problem.status === 429) {
    note("Too many requests; there is room again in " + problem.retryAfter + " s.", "Try again", start);
  } else if (problem instanceof Problem) {
    note(problem.message, "Try again", start);
  } else {
    note("The service cannot be reached.", "Try again", start);
  }
}

// note shows a line, and a button if there is something to do about it.
function note(text, label, action) {
  $("problem").replaceChildren(text);
  if (label) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", action);
    $("problem").append(" ", button);
  }
  $("problem").hidden = false;
}

// start shows everything from the newest snapshot.
function start() {
  if (auth === "keys" && sessionStorage.getItem(storedKey) === null) {
    forget();
    return;
  }
  return load(async () => {
    const { signal } = running;
    const totals = await ask("global", {}, "", signal);
    pin = totals.headers.get("X-Snapshot-Time");
    newer = "";
    setAge(totals.headers);
    const trending = await ask("trending", {}, pin, signal);
    showTotals(totals.result);
    showTrending(trending.result.items);
    await showListing();
    $("key-form").hidden = true;
    $("board").hidden = false;
    $("forget").hidden = auth === "off";
  });
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
      element("li", {}, mark(row), element("span", { class: "symbol", title: row.symbol }, row.symbol), changed(row.percent_change["24h"]),
        element("span", { class: "name", title: row.name }, row.name), element("span", { class: "price" }, exact(row.price, price)))),
  );
  $("trending-none").hidden = items.length > 0;
}

// showListing loads and shows one page of the view, from the pinned snapshot.
async function showListing() {
  const { signal } = running;
  const now = state();
  const parameters = { sort: now.sort, page: now.page, size: pageSize };
  if (now.symbol) parameters.symbol = now.symbol.split(/[\s,]+/).filter(Boolean).slice(0, 100).join(",") || ",";
  const { result } = await ask(now.view, parameters, pin, signal);
  const rows = result.items;
  if (now.view === "assets" && rows.length > 0) {
    const ids = rows.map((row) => row.id).join(",");
    const quotes = await ask("quotes", { id: ids, size: 100 }, pin, signal);
    const byID = new Map(quotes.result.items.map((quote) => [quote.id, quote]));
    for (const row of rows) row.quote = byID.get(row.id);
  }
  signal.throwIfAborted();
  const view = views[now.view];
  // What has the focus is about to be replaced, or disabled.
  const focused = document.activeElement.dataset.sort;
  $("table").caption.textContent = view.title;
  $("listing-title").textContent = view.title;
  $("table").tHead.replaceChildren(element("tr", {}, ...view.columns.map((column) => heading(column, now))));
  $("table").tBodies[0].replaceChildren(
    ...rows.map((row) => element("tr", {}, ...view.columns.map((column) => element("td", { class: classOf(column) }, column.cell(row))))),
  );
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
  if (focused) document.querySelector("[data-sort=" + focused + "]")?.focus();
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

// setAge takes the snapshot's age from the server's clock, not from this one.
function setAge(headers) {
  const now = Date.parse(headers.get("Date")) || Date.now();
  age = { seconds: (now - Date.parse(pin)) / 1000, at: performance.now() };
  showAge();
}

function showAge() {
  if (!age) return;
  const seconds = age.seconds + (performance.now() - age.at) / 1000;
  const minutes = Math.floor(Math.max(seconds, 0) / 60);
  const stale = seconds > staleAfter;
  const said = minutes < 1 ? "just now" : minutes < 120 ? minutes + " min ago" : Math.floor(minutes / 60) + " h ago";
  const text = "Snapshot of " + pin.slice(0, 10) + " " + pin.slice(11, 16) + " UTC, " + said + (stale ? ", stale" : "");
  // Written only when it differs, because it is read out.
  if ($("age").textContent !== text) $("age").textContent = text;
  $("age").classList.toggle("stale", stale);
}

// look asks for a newer snapshot, and offers it: the page does not change under
// the reader.
async function look() {
  if ($("board").hidden || document.hidden) return;
  try {
    const { headers } = await ask("global", {}, "", null);
    const now = headers.get("X-Snapshot-Time");
    if (now !== pin && now !== newer) {
      newer = now;
      note("There is a newer snapshot.", "Show it", start);
    }
  } catch {
    // The age tells how old the page is; the next look comes soon.
  }
}

function forget() {
  sessionStorage.removeItem(storedKey);
  $("board").hidden = true;
  $("forget").hidden = true;
  $("problem").hidden = true;
  $("age").textContent = "";
  age = null;
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
$("views").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const view = new URLSearchParams(link.search).get("view");
  go({ view, sort: views[view].sort, page: 1, symbol: "" });
});
$("previous").addEventListener("click", () => go({ page: Math.min(state().page - 1, pages) }));
$("next").addEventListener("click", () => go({ page: state().page + 1 }));
$("forget").addEventListener("click", forget);
addEventListener("popstate", () => load(() => showListing()));
setInterval(showAge, 10_000);
setInterval(look, checkEvery * 1000);
start();
