// This file shows the notice that the operator or the source wants on every page with the data.
"use strict";

// noticed resolves when the notice is shown. Pages wait for it, so that their content does not move later.
const noticed = fetch("/notice.json", { cache: "no-cache" })
  .then((response) => response.json())
  .then(({ text, url }) => {
    const said = document.getElementById("notice");
    if (!text) return;
    said.textContent = text;
    if (url && /^https?:$/.test(new URL(url).protocol)) {
      const link = document.createElement("a");
      link.href = url;
      link.rel = "noopener noreferrer";
      link.textContent = text;
      said.replaceChildren(link);
    }
    said.hidden = false;
  })
  .catch(() => {}); // the page works without a notice
