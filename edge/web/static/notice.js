// What the operator or the source wants to be said wherever the data is shown.
"use strict";

// The board and the reference wait for it, so that nothing moves when it is there.
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
  .catch(() => {}); // the data says the rest
