package web_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

const keyRequestURL = "https://keys.example/request"

// startEdge starts an edge on the example market, and returns its base URL and a key.
func startEdge(t *testing.T, authOff bool) (base, key string) {
	t.Helper()
	store := openapitest.Market(t)
	key = teststore.Key(t, store, 1000, 1000).Key
	base = openapitest.Start(
		t, edge.Config{Reader: store, AuthOff: authOff, Server: server.Config{KeyRequestURL: keyRequestURL}})
	openapitest.Await(t, base, key)
	return base, key
}

// TestReference opens the reference on a phone, enters a key, sends a request from the console, and checks
// the answer. On a desktop, it does the same with the key of the board in another tab, and with a limit,
// which must be the only parameter sent. It also looks at the dark theme.
func TestReference(t *testing.T) {
	base, key := startEdge(t, false)
	b := startBrowser(t)
	for end, v := range views {
		name := cmp.Or(strings.TrimPrefix(end, "-"), "desktop")
		t.Run(name, func(t *testing.T) {
			p := b.open(t, v)
			if name == "desktop" {
				p.goTo(base + "/#key=" + key)
				p.await(`document.querySelector("#table tbody").innerText.includes("Bitcoin")`)
				p = p.tab()
			}
			p.goTo(base + "/docs#tag/assets/GET/openapi/v1/quotes")
			const (
				field = `document.querySelector("input.scalar-password-input")`
				try   = `document.querySelector("[id$='tag/assets/GET/openapi/v1/quotes'] .show-api-client-button")`
				// Search only the console, because the page below it shows an example of the same answer.
				console = `document.querySelector("[role=dialog].scalar-client")`
				send    = `[...` + console +
					`.querySelectorAll("[data-addressbar-action=send]")].find((button) => button.checkVisibility())`
			)
			p.await(field + ` && ` + try)
			p.shoot("docs-" + name)
			p.checkFits()
			p.checkDark(v.dark)
			p.checkStayed(base)
			if p.eval(`document.body.innerText.includes(`+quote(keyRequestURL)+`)`) != true {
				t.Error("the page does not say where keys are requested")
			}
			p.await(`document.body.innerText.includes("export MARKETDATA_URL=" + location.origin + " ")`)
			if v.dark {
				return // the console does not depend on the theme
			}
			want := "/openapi/v1/quotes"
			if name == "phone" {
				p.eval(field + `.focus()`)
				p.insert(key)
			}
			p.eval(try + `.click()`)
			p.await(send)
			if name == "desktop" {
				const limit = console + `.querySelector("#limit [aria-label$=Value] [contenteditable]")`
				p.eval(limit + `.focus()`)
				p.insert("5")
				p.await(console + `.querySelector("#limit [type=checkbox]").checked`)
				want += "?limit=5"
			}
			p.eval(send + `.click()`)
			p.await(console + `.innerText.includes("200 OK") && ` + console + `.innerText.includes("64447.198255415")`)
			p.shoot("docs-" + name + "-answer")
			p.expect(`String(`+console+`.querySelectorAll(".alert").length)`, "0")
			p.mu.Lock()
			last := p.requests[len(p.requests)-1]
			p.mu.Unlock()
			if last != base+want {
				t.Errorf("the console asked %s, want %s", last, want)
			}
			if p.asked(key) {
				t.Error("the key was part of an address")
			}
			if name == "phone" { // on a desktop, the board keeps the key
				p.expect(`String(JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie]).includes(`+quote(key)+
					`))`, "false")
			}
			p.checkStayed(base)
		})
	}
}

// TestGuides checks that the menu shows the guides, that no code is cut off, that the panel of clients
// shows the project's own, and that the search finds nothing twice.
func TestGuides(t *testing.T) {
	base, _ := startEdge(t, true)
	for end, v := range views {
		p := startBrowser(t).open(t, v)
		p.goTo(base + "/docs")
		p.await(`document.querySelector("#clients")?.innerText.includes("Go, Python and TypeScript")`)
		p.expect(`String([...document.querySelectorAll(".client-libraries-heading")]
			.some((e) => e.checkVisibility()))`, "false")
		p.expect(`String([...document.querySelectorAll(".markdown pre, .markdown pre *")].filter((e) =>
			e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").length)`, "0")
		p.checkDark(v.dark)
		p.checkFits()
		if end != "" {
			continue
		}
		p.await(`document.querySelector("aside").innerText.includes("Questions and answers")`)
		p.eval(`[...document.querySelectorAll("button")].find((b) => b.innerText.includes("Search")).click()`)
		p.await(`document.querySelector("[role=dialog] input")`)
		for _, name := range []string{"Pinned", "Quick start", "Limits and retries"} {
			p.eval(`document.querySelector("[role=dialog] input").select()`)
			p.insert(name)
			titles := `[...document.querySelectorAll("[role=dialog] [role=option]")].filter((o) => o.innerText.includes(` +
				quote(name) + `)).length`
			p.await(titles + ` > 0`)
			p.expect(`String(`+titles+`)`, "1")
		}
		p.checkStayed(base)
	}
}

// TestPinned checks that the operations below /at/ are under one entry of the menu, and sends one with the
// time that the page fills in.
func TestPinned(t *testing.T) {
	at := mark()
	base, _ := startBoard(t, at, true, at.Add(-10*time.Minute))
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/docs")
	const (
		menu      = `[...document.querySelectorAll("aside a, aside button, nav a, nav button")].map((a) => a.innerText)`
		history   = "tag/pinned/GET/at/{time}/openapi/v1/history"
		operation = `document.querySelector("[id$='` + history + `']")`
		console   = `document.querySelector("[role=dialog].scalar-client")`
		send      = `[...` + console +
			`.querySelectorAll("[data-addressbar-action=send]")].find((button) => button.checkVisibility())`
	)
	p.await(menu + `.some((entry) => entry.startsWith("Pinned"))`)
	p.expect(`String(`+menu+`.some((entry) => entry.startsWith("List prices up to a snapshot")))`, "false")
	p.goTo(base + "/docs#" + history)
	p.await(operation + `.querySelector(".show-api-client-button")`)
	p.expect(`String(`+menu+`.filter((entry) => entry.includes("snapshot")).length)`, "21")
	p.eval(operation + `.querySelector(".show-api-client-button").click()`)
	p.await(send)
	p.eval(console + `.querySelector("#id [aria-label$=Value] [contenteditable]").focus()`)
	p.insert("7")
	p.await(console + `.querySelector("#id [type=checkbox]").checked`)
	p.eval(send + `.click()`)
	p.await(console + `.innerText.includes("200 OK") && ` + console + `.innerText.includes('"points"')`)
	p.checkStayed(base)
}
