// Favourites: ids of assets, kept in this browser's local storage, and nothing else
// of the reader's.
"use strict";

const favouritesKey = "market-board-favourites";
const mostFavourites = 100; // no list of ids may be longer

let favourites = []; // as they are stored

function readFavourites() {
  try {
    const stored = JSON.parse(localStorage.getItem(favouritesKey));
    favourites = Array.isArray(stored) ? stored.filter((id) => Number.isSafeInteger(id) && id > 0).slice(0, mostFavourites) : [];
  } catch {
    // No storage, or no JSON: what this tab knows stands.
  }
}

// star is the button that makes an asset a favourite, and no more one.
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
      // Kept for as long as the page is.
    }
    showStars();
  });
  return button;
}

// showStars has every star as it is stored. A row of the favourites stays until they
// are shown anew, so that a slip can be undone.
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
