// This file shows /openapi.json with Scalar, or, at /docs?coingecko, the document of the
// CoinGecko-compatible API. The page loads Scalar's bundle after this file. All features of Scalar that
// would contact another host are turned off. The page's Content-Security-Policy would refuse them, too.
"use strict";
// Without this, Scalar's schema library would try to compile code from text.
globalThis.__zod_globalConfig = { jitless: true };

// customFetch changes the document for Scalar's console. The console would send every parameter that has a
// default, even page together with limit, and every example. With an empty example it only sends what the
// reader fills in. The console would also mark an empty field as a wrong number or time. It does not check
// the value if type is a list, even a list of one. Code examples get the name of this host.
async function customFetch(input, init) {
  const response = await fetch(input, init);
  if (new URL(input.url ?? input, location.href).pathname !== "/openapi.json") return response;
  const document = await response.json();
  const [server] = document.servers; // a proxy may have hidden the name of the host
  document.info.description = document.info.description.replaceAll(server.url, location.origin);
  server.url = location.origin;
  const parameters = Object.values(document.paths).flatMap((path) => path.get.parameters);
  for (const parameter of [...parameters, ...Object.values(document.components.parameters)]) {
    delete parameter.example;
    if (parameter.schema?.default !== undefined) parameter.examples = { default: { value: "" } };
    if (parameter.schema?.format) parameter.schema.type = [parameter.schema.type];
  }
  // The snapshot in the document's example no longer exists. The one of the last ten-minute mark but one does.
  const { At: at } = document.components.parameters;
  at.example = new Date((Math.floor(Date.now() / 6e5) - 1) * 6e5).toISOString().replace(/[-:]|\.000/g, "");
  return Response.json(document);
}

document.addEventListener("DOMContentLoaded", async () => {
  toldByTabs(() => {});
  if (needsKey()) await keyOfTabs();
  const value = heldKey() ?? ""; // the board's key, from this tab or another one
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
    // The example in the key field does not look like a key. A section needs no frame when it gets the
    // focus from a link. Code wraps, because readers do not notice that it scrolls. The panel of client
    // libraries lacks the project's own, so showClients replaces it.
    customCss: ".scalar-password-input::placeholder { color: transparent; } .section:focus-visible { outline: none; } .markdown pre, .markdown pre * { white-space: pre-wrap !important; overflow-wrap: anywhere !important; } .scalar-reference-intro-clients > * { display: none; }",
  });
  if (theirs) return; // its introduction is short, and the project's clients do not support it
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
  text.textContent = "The project's folder edge/openapi/clients has clients for Go, Python and TypeScript, which have no dependencies. They read whole listings from one snapshot, retry failed requests, follow events, and resume interrupted downloads.";
  own.append(title, text);
  panel.before(own);
}
