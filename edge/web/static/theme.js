// The theme is light or dark. It is the reader's choice, which local storage keeps, or else the theme of the
// system. This file runs before anything is drawn.
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

// switchTheme switches to the other theme. A switch to the system's theme removes the choice, so that the page
// then follows the system.
function switchTheme() {
  const dark = document.documentElement.dataset.theme !== "dark";
  chosenTheme = dark === systemDark.matches ? null : dark ? "dark" : "light";
  try {
    if (chosenTheme) localStorage.setItem(themeKey, chosenTheme);
    else localStorage.removeItem(themeKey);
  } catch {
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
