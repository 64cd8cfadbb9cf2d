// The reader's key is kept in this tab's session storage and shared with the board's other tabs. It is gone
// when the last of these tabs is closed. This file runs before all others, so that a key disappears from the
// URL immediately.
"use strict";

const auth = document.querySelector("meta[name=auth]").content;
const storedKey = "market-board-key";
const keyFormat = /^mdk_live_[0-9A-Za-z]{39}$/;
const sharing = 150; // milliseconds that other tabs have to answer with a key
const tabs = new BroadcastChannel(storedKey);

const heldKey = () => (auth === "keys" ? sessionStorage.getItem(storedKey) : null);
const needsKey = () => auth === "keys" && heldKey() === null;

// takeKey keeps text if it looks like a key, and returns whether it does.
function takeKey(key) {
  if (keyFormat.test(key)) sessionStorage.setItem(storedKey, key);
  return keyFormat.test(key);
}

// shareKey gives the key to other tabs. It is called when an answer has shown that the key is valid.
function shareKey() {
  if (heldKey() !== given) tabs.postMessage({ key: (given = heldKey()) });
}

let given = null;

// dropKey forgets the key, in all other tabs too if everywhere is set.
function dropKey(everywhere) {
  if (everywhere) tabs.postMessage({ drop: heldKey() });
  sessionStorage.removeItem(storedKey);
  given = null;
}

// keyOfTabs asks the other tabs for a key, and waits a moment for an answer.
async function keyOfTabs() {
  tabs.postMessage({ wanted: true });
  const asked = new AbortController();
  await new Promise((done) => {
    setTimeout(done, sharing);
    tabs.addEventListener("message", ({ data }) => data.key && done(), { signal: asked.signal });
  });
  asked.abort();
}

// keyOfAddress removes #key=…, which sign-in links contain, from the URL. It returns whether that was
// a key, or undefined if there was none or the tab has a key already. The tab keeps the key that it has,
// because anybody can write a link and must not replace it.
function keyOfAddress() {
  if (!location.hash.startsWith("#key=")) return undefined;
  const key = location.hash.slice("#key=".length);
  history.replaceState(history.state, "", location.pathname + location.search);
  return needsKey() ? takeKey(key) : undefined;
}

// toldByTabs calls changed when another tab gives this tab a key or makes it drop its key.
function toldByTabs(changed) {
  tabs.addEventListener("message", ({ data }) => {
    const held = heldKey();
    if (data.wanted && held) tabs.postMessage({ key: held });
    if (data.key && needsKey() && keyFormat.test(data.key)) sessionStorage.setItem(storedKey, data.key);
    if (data.drop && data.drop === held) sessionStorage.removeItem(storedKey);
    if (heldKey() !== held) changed();
  });
}

const keyCame = keyOfAddress();
