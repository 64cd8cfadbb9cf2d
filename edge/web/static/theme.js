// The theme, light or dark: the reader's choice, which local storage keeps, or else the
// system's. This file runs before anything is drawn.
"use strict";

const themeKey = "market-board-theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;

function showTheme() {
  try {
    chosenTheme = localStorage.getItem(themeKey);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  const dark = chosenTheme ? chosenTheme === "dark" : systemDark.matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme")?.setAttribute("aria-pressed", String(dark));
  dispatchEvent(new Event("theme"));
}

// switchTheme turns to the other theme. The system's own is no choice: it may change.
function switchTheme() {
  const dark = document.documentElement.dataset.theme !== "dark";
  chosenTheme = dark === systemDark.matches ? null : dark ? "dark" : "light";
  try {
    if (chosenTheme) localStorage.setItem(themeKey, chosenTheme);
    else localStorage.removeItem(themeKey);
  } catch {
    // As above.
  }
  showTheme();
}

systemDark.addEventListener("change", showTheme);
addEventListener("storage", ({ key }) => key === themeKey && showTheme());
addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click", switchTheme);
  showTheme();
});
showTheme();
