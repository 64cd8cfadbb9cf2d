// The reader's key: kept in this tab's session storage, given with the board's other
// tabs, and gone when the last of them is closed. This file runs before all others,
// so that a key in the address is out of it at once.
"use strict";

const auth = document.querySelector("meta[name=auth]").content;
const storedKey = "market-board-key";
const keyFormat = /^mdk_live_[0-9A-Za-z]{39}$/;
const sharing = 150; // milliseconds that other tabs have to tell of a key
const tabs = new BroadcastChannel(storedKey);

const heldKey = () => (auth === "keys" ? sessionStorage.getItem(storedKey) : null);
const needsKey = () => auth === "keys" && heldKey() === null;

// takeKey keeps what looks like a key.
function takeKey(key) {
  if (keyFormat.test(key)) sessionStorage.setItem(storedKey, key);
  return keyFormat.test(key);
}

// shareKey gives other tabs the key, once it is known to be in force.
function shareKey() {
  if (heldKey() !== given) tabs.postMessage({ key: (given = heldKey()) });
}

let given = null;

// dropKey forgets the key; everywhere: in each tab that has it.
function dropKey(everywhere) {
  if (everywhere) tabs.postMessage({ drop: heldKey() });
  sessionStorage.removeItem(storedKey);
  given = null;
}

// keyOfTabs asks the other tabs for a key, and waits a moment.
async function keyOfTabs() {
  tabs.postMessage({ wanted: true });
  const asked = new AbortController();
  await new Promise((done) => {
    setTimeout(done, sharing);
    tabs.addEventListener("message", ({ data }) => data.key && done(), { signal: asked.signal });
  });
  asked.abort();
}

// keyOfAddress takes #key=… out of the address, as a link has it that signs in, and
// returns whether there was one that is a key. A key that is held stays: a link, which
// anybody can write, is not to put another in its place.
function keyOfAddress() {
  if (!location.hash.startsWith("#key=")) return undefined;
  const key = location.hash.slice("#key=".length);
  history.replaceState(history.state, "", location.pathname + location.search);
  return needsKey() ? takeKey(key) : undefined;
}

// toldByTabs calls changed when another tab gives this one a key, or has it drop its own.
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
