// Shows /openapi.json with Scalar, whose bundle is loaded behind this file.
// Everything in it that would reach another host is turned off; the page's
// Content-Security-Policy would refuse it, too.
"use strict";
// Scalar's schema library would try whether it may compile code from text.
globalThis.__zod_globalConfig = { jitless: true };
document.addEventListener("DOMContentLoaded", () => {
  Scalar.createApiReference("#reference", {
    url: "/openapi.json",
    agent: { disabled: true },
    mcp: { disabled: true },
    telemetry: false,
    withDefaultFonts: false,
    hideClientButton: true,
    showDeveloperTools: "never",
    documentDownloadType: "direct",
    persistAuth: false,
    defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
    authentication: { preferredSecurityScheme: "ApiKey" },
    modelsSectionLabel: "Schemas",
    // The key field's example is not one of a key.
    customCss: ".scalar-password-input::placeholder { color: transparent; }",
  });
});
