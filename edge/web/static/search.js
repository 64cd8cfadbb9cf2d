// The search field is a combobox. Its list shows what /search finds, and changes as the reader types.
"use strict";

// /search accepts at most searchBytes and searchWords, and returns at most mostFound assets. The field asks
// when the reader has not typed for the time typing.
const searchBytes = 64, searchWords = 8, mostFound = 20;
const typing = 150; // milliseconds

let found = []; // the rows of the list
let active = -1; // the index of the row that the arrow keys have selected, or -1
let searching = null; // aborts the request that is not answered yet
let opening = false; // whether to open the first asset that is found

const words = (text) => text.split(" ").filter(Boolean);

async function search() {
  const q = $("q").value;
  const long = new TextEncoder().encode(q).length > searchBytes || words(q).length > searchWords;
  if (long || words(q).length === 0) {
    closeFound();
    if (long) sayFound("Too long: enter at most " + searchWords + " words and " + searchBytes + " letters.");
    return;
  }
  searching?.abort();
  opening = false;
  const { signal } = (searching = new AbortController());
  await new Promise((done) => setTimeout(done, typing));
  if (signal.aborted) return;
  try {
    const { result } = await ask("search", { q }, pin, signal).catch((problem) => {
      if (problem.key !== "SNAPSHOT_GONE") throw problem;
      return ask("search", { q }, "", signal);
    });
    searching = null;
    showFound(meant(result.items, q));
  } catch (problem) {
    if (signal.aborted) return;
    closeFound();
    if (problem.status === 401) fail(problem);
    else sayFound(why(problem));
  }
}

// meant sorts the rows by what a reader probably means. The asset whose symbol, name or slug was typed comes
// first, unless it is tiny and a large one is found, too. Programs rely on the order of /search itself.
function meant(rows, q) {
  const typed = words(q).join(" ").toLowerCase();
  const rank = (row) => row.rank ?? Infinity;
  const place = (row) => {
    const equal = [row.symbol, row.name, row.slug].some((text) => text.toLowerCase() === typed);
    return equal && rank(row) <= 1000 ? 0 : rank(row) <= 100 ? 1 : equal ? 2 : 3;
  };
  return rows.toSorted((a, b) => place(a) - place(b) || (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}

function showFound(rows) {
  found = rows;
  move(-1);
  sayFound(rows.length === 0 ? "No assets found. A single letter matches only a whole word." : rows.length === 1 ? "1 asset" : rows.length < mostFound ? rows.length + " assets" : "The first " + mostFound + " assets. Type more letters to find others.");
  $("found").replaceChildren(
    ...rows.map((row, i) => {
      const option = element("li", { role: "option", id: "found-" + i, "aria-selected": "false" }, mark(row), element("span", { class: "name" }, row.name), element("span", { class: "soft" }, row.symbol), element("span", { class: "soft" }, row.rank ? "#" + row.rank : ""));
      option.addEventListener("click", () => openFound(row));
      return option;
    }),
  );
  $("found").hidden = rows.length === 0;
  $("q").setAttribute("aria-expanded", String(rows.length > 0));
  if (opening && rows.length > 0) openFound(rows[0]);
}

const sayFound = (text) => ($("found-says").textContent = text);

function closeFound() {
  searching?.abort();
  searching = null;
  opening = false;
  found = [];
  move(-1);
  $("found").hidden = true;
  $("found").replaceChildren();
  $("q").setAttribute("aria-expanded", "false");
  sayFound("");
}

function move(to) {
  $("found-" + active)?.setAttribute("aria-selected", "false");
  active = to;
  const option = $("found-" + to);
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({ block: "nearest" });
  if (option) $("q").setAttribute("aria-activedescendant", option.id);
  else $("q").removeAttribute("aria-activedescendant");
}

function openFound(row) {
  $("q").value = "";
  closeFound();
  visit(pageOf(row, "asset"));
}

$("q").addEventListener("input", search);
$("q").addEventListener("focus", search);
$("q").addEventListener("blur", closeFound);
$("found").addEventListener("mousedown", (event) => event.preventDefault()); // so that the field keeps the focus
$("q").addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by && found.length > 0) {
    event.preventDefault();
    move(active < 0 && by < 0 ? found.length - 1 : (active + by + found.length) % found.length);
  } else if (event.key === "Escape") {
    if (!$("found-says").textContent) $("q").value = "";
    closeFound();
  }
});
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  if (searching) opening = true;
  else if (found.length > 0) openFound(found[Math.max(active, 0)]);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || $("search").hidden || event.target.matches("input, select")) return;
  event.preventDefault();
  $("q").focus();
});
