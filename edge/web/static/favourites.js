// Favourites are ids of assets. They are kept in this browser's local storage, with nothing else about
// the reader.
"use strict";

const favouritesKey = "market-board-favourites";
const mostFavourites = 100; // the limit of ids per request

let favourites = []; // as they are stored

function readFavourites() {
  try {
    const stored = JSON.parse(localStorage.getItem(favouritesKey));
    favourites = Array.isArray(stored) ? stored.filter((id) => Number.isSafeInteger(id) && id > 0).slice(0, mostFavourites) : [];
  } catch {
    // There is no storage, or no JSON in it: this tab keeps the list that it has.
  }
}

// star creates the button that adds an asset to the favourites or removes it.
function star(row, id = "star-" + row.id) {
  const button = element("button", { type: "button", class: "star", id, "data-asset": row.id, "aria-label": "Favourite: " + row.name, "aria-pressed": String(favourites.includes(row.id)) });
  button.addEventListener("click", () => {
    readFavourites(); // another tab may have changed them
    const others = favourites.filter((id) => id !== row.id);
    if (others.length === mostFavourites) return note("You can have at most " + mostFavourites + " favourites.");
    favourites = others.length === favourites.length ? [...others, row.id] : others;
    try {
      localStorage.setItem(favouritesKey, JSON.stringify(favourites));
    } catch {
    }
    showStars();
  });
  return button;
}

// showStars updates every star to what is stored. A row stays in the listing of favourites until the listing is
// loaded again, so that the reader can undo a mistake.
function showStars() {
  for (const button of document.querySelectorAll(".star")) button.setAttribute("aria-pressed", String(favourites.includes(Number(button.dataset.asset))));
}

addEventListener("storage", ({ key }) => {
  if (key !== favouritesKey && key !== null) return;
  readFavourites();
  if (state().view === "favourites" && pin) load(pin, true);
  else showStars();
});
readFavourites();
