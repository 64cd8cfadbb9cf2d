// Shows /openapi.json, or at /docs?coingecko the document of the CoinGecko-compatible API, with Scalar,
// whose bundle is loaded behind this file.
// Everything in it that would reach another host is turned off; the page's
// Content-Security-Policy would refuse it, too.
"use strict";
// Scalar's schema library would try whether it may compile code from text.
globalThis.__zod_globalConfig = { jitless: true };

// The console would send every parameter that has a default, page and limit at
// once, and every example: with an empty one it sends what the reader fills in.
// Examples of programs name this host. And it would mark what is empty as a wrong number or
// time: of a list of types, though of one, it judges no value.
async function customFetch(input, init) {
  const response = await fetch(input, init);
  if (new URL(input.url ?? input, location.href).pathname !== "/openapi.json") return response;
  const document = await response.json();
  const [server] = document.servers; // which a proxy may have misled
  document.info.description = document.info.description.replaceAll(server.url, location.origin);
  server.url = location.origin;
  const parameters = Object.values(document.paths).flatMap((path) => path.get.parameters);
  for (const parameter of [...parameters, ...Object.values(document.components.parameters)]) {
    delete parameter.example;
    if (parameter.schema?.default !== undefined) parameter.examples = { default: { value: "" } };
    if (parameter.schema?.format) parameter.schema.type = [parameter.schema.type];
  }
  // The document's example of a time is gone: the mark before the last one has surely been published.
  const { At: at } = document.components.parameters;
  at.example = new Date((Math.floor(Date.now() / 6e5) - 1) * 6e5).toISOString().replace(/[-:]|\.000/g, "");
  return Response.json(document);
}

document.addEventListener("DOMContentLoaded", async () => {
  toldByTabs(() => {});
  if (needsKey()) await keyOfTabs();
  const value = heldKey() ?? ""; // the board's, in this tab or another one
  const theirs = new URLSearchParams(location.search).has("coingecko");
  const scheme = theirs ? "own" : "ApiKey"; // the header X-Api-Key
  Scalar.createApiReference("#reference", {
    url: theirs ? "/api/v3/openapi.json" : "/openapi.json",
    customFetch,
    agent: { disabled: true },
    mcp: { disabled: true },
    telemetry: false,
    withDefaultFonts: false,
    hideClientButton: true,
    showDeveloperTools: "never",
    documentDownloadType: "direct",
    persistAuth: false,
    defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
    authentication: { preferredSecurityScheme: scheme, securitySchemes: { [scheme]: { value } } },
    modelsSectionLabel: "Schemas",
    // The key field's example is not one of a key. A section that was jumped to has the focus,
    // which is no reason to frame it. Code wraps, since nobody sees that it could be scrolled. The
    // panel of client libraries offers everybody's but ours, which showClients puts in its place.
    customCss: ".scalar-password-input::placeholder { color: transparent; } .section:focus-visible { outline: none; } .markdown pre, .markdown pre * { white-space: pre-wrap !important; overflow-wrap: anywhere !important; } .scalar-reference-intro-clients > * { display: none; }",
  });
  if (theirs) return; // its introduction is short, and our clients do not speak it
  drawn("[data-sidebar-id$='description/introduction'] button[aria-expanded=false]").then((button) => button.click());
  showClients(await drawn(".introduction-card-item.scalar-reference-intro-clients"));
});

// drawn returns an element as soon as Scalar has drawn it.
function drawn(selector) {
  return new Promise((done) => {
    const look = () => {
      const found = document.querySelector(selector);
      if (found) watch.disconnect(), done(found);
    };
    const watch = new MutationObserver(look);
    watch.observe(document.body, { childList: true, subtree: true });
    look();
  });
}

function showClients(panel) {
  const own = document.createElement("section");
  own.id = "clients";
  const title = document.createElement("h3"), text = document.createElement("p");
  title.textContent = "Clients";
  text.textContent = "Go, Python and TypeScript, without dependencies, are in the project's folder edge/openapi/clients. They read whole listings in one snapshot, wait and try again, follow events, and finish interrupted downloads.";
  own.append(title, text);
  panel.before(own);
}
