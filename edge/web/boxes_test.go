package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// recorded is the folder of recorded markets, which are not part of the project.
const recorded = "../../../shared/data"

// widths lists the window widths in which the test measures pages.
var widths = []int{1920, 1440, 1280, 1180, 1024, 820, 768, 705, 600, 390, 360, 320}

// extreme returns a market with the longest names and numbers that a feed may contain.
func extreme(at time.Time) map[string][]map[string]any {
	rows := board(at, at)
	long := strings.Repeat("Incomprehensibilities", 10)
	for i, quote := range rows["quotes"][:12] {
		asset := rows["assets"][i]
		switch i % 4 {
		case 0:
			quote["price"], asset["name"] = "1234567890.123456789012345678", long
		case 1:
			quote["price"], asset["symbol"] = strings.Repeat("9", 18)+"."+strings.Repeat("9", 18), long
		case 2:
			quote["price"], asset["name"] = "0.000000000000000001", "W W W W W "+long
		case 3:
			quote["price"], asset["name"], asset["symbol"] = "0.000000012345", strings.Repeat("漢字", 30), "漢字漢字漢字"
		}
		quote["market_cap"], quote["volume"] = strings.Repeat("9", 28)+".99", strings.Repeat("8", 28)+".12345678"
	}
	for _, group := range []string{"categories", "chains"} {
		rows[group][0]["name"] = long
		rows[group][0]["display_name"] = long
	}
	rows["exchanges"][0]["name"] = long
	rows["exchanges"][0]["fees"] = map[string]any{"maker": "1234567890.12345678", "taker": "0.00000001"}
	rows["exchanges"][0]["market"] = map[string]any{
		"volume_24h": strings.Repeat("7", 28), "markets_count": 1 << 53, "coins_count": 999_999_999}
	return rows
}

// measure returns the faults in the layout of a page: text that overlaps or extends beyond its cell, rows
// of more than two lines, rows that are sorted by a hidden column, and a page that is wider than the
// window.
const measure = `(() => {
	const found = [], clips = new Map(), boxes = [];
	const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
	if (wide > 0) found.push("the page is " + wide + " pixels wider than the window");
	if (document.querySelector("#listing:not([hidden]) th[aria-sort]:not(.rank)")?.checkVisibility() === false) found.push("the rows are sorted by a column that is not in sight");
	for (const row of document.querySelectorAll("#table tr:not(:has(.empty))")) {
		if (row.offsetHeight > 62) found.push("a row is " + row.offsetHeight + " pixels high: " + row.innerText.slice(0, 60));
	}
	// clip returns the rectangle in which the contents of an element are visible.
	const clip = (element) => {
		if (!element) return { left: -1e9, right: 1e9, top: -1e9, bottom: 1e9 };
		if (!clips.has(element)) {
			const outer = clip(element.parentElement), box = element.getBoundingClientRect();
			const { overflowX, clipPath } = getComputedStyle(element);
			clips.set(element, clipPath !== "none" ? both(outer, { left: 0, right: 0, top: 0, bottom: 0 }) : overflowX === "visible" ? outer : both(outer, box));
		}
		return clips.get(element);
	};
	const both = (a, b) => ({ left: Math.max(a.left, b.left), right: Math.min(a.right, b.right), top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom) });
	const range = document.createRange();
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let text; (text = texts.nextNode()); ) {
		const parent = text.parentElement;
		if (!text.data.trim() || parent.closest(".hidden, .lead, #point, select") || !parent.checkVisibility({ visibilityProperty: true })) continue;
		range.selectNodeContents(text);
		for (const rect of range.getClientRects()) {
			const box = both(rect, clip(parent)), cell = parent.closest("td, th, li, .card, .strip")?.getBoundingClientRect();
			if (box.right - box.left < 2 || box.bottom - box.top < 2) continue;
			if (cell && (box.left < cell.left - 1 || box.right > cell.right + 1)) found.push("it leaves its cell: " + text.data.slice(0, 60));
			boxes.push({ ...box, text });
		}
	}
	boxes.sort((a, b) => a.top - b.top);
	for (const [i, a] of boxes.entries()) {
		for (let j = i + 1; j < boxes.length && boxes[j].top < a.bottom - 3; j++) {
			const b = boxes[j];
			if (a.text !== b.text && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1) found.push(a.text.data.slice(0, 60) + " overlaps " + b.text.data.slice(0, 60));
		}
	}
	return found.slice(0, 5);
})()`

// TestBoxes measures the pages of several markets in windows of twelve widths: a simulated market, one with
// the longest names and numbers, and recorded ones.
func TestBoxes(t *testing.T) {
	b := startBrowser(t)
	at := mark()
	stores := map[string]func(*testing.T, *memstore.Store){
		"simulated": func(t *testing.T, store *memstore.Store) {
			teststore.Simulate(t, store, "?assets=2000&seed=1", append(hourly(at, 24), at)...)
		},
		"extreme": func(t *testing.T, store *memstore.Store) { teststore.PublishAll(t, store, extreme, at) },
	}
	for _, name := range []string{"coingecko-2025", "top1000-2026"} {
		stores[name] = func(t *testing.T, store *memstore.Store) {
			teststore.Recorded(t, store, teststore.RecordedFolder(t, recorded, name))
		}
	}
	for name, fill := range stores {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			fill(t, store)
			base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
			openapitest.Await(t, base, "")
			p := b.open(t, view{width: 1920, height: 900})
			for _, query := range []string{
				"", "?sort=percent_change.24h:desc", "?sort=volume:desc", "?view=categories",
				"?view=chains&sort=volume_24h:desc", "?view=exchanges"} {
				p.goTo(base + "/" + query)
				p.await(shown + ` && location.search === ` + quote(query))
				p.measure(name + " /" + query)
			}
			// The pages of the first asset and of the first category.
			for _, listing := range []string{"assets", "categories"} {
				p.goTo(base + "/?view=" + listing)
				p.await(shown + ` && location.search === ` + quote("?view="+listing))
				if p.eval(`Boolean(document.querySelector("#table a.coin"))`) == true {
					p.eval(click("#table a.coin"))
					p.await(detailShown)
					p.measure(name + ": a page of " + listing)
					if listing == "assets" {
						p.eval(click("#styles a:last-child"))
						p.await(detailShown + ` && location.search.endsWith("&chart=candles") && !document.querySelector("#chart .skeleton")`)
						p.measure(name + ": candles")
					}
				}
			}
		})
	}
}

// measure measures the page in windows of all widths.
func (p *page) measure(what string) {
	p.t.Helper()
	for _, width := range widths {
		p.call("Emulation.setDeviceMetricsOverride",
			map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false})
		p.await(fmt.Sprintf(`innerWidth === %d && !busy`, width))
		for _, wrong := range p.texts(measure) {
			p.t.Errorf("%s in %d: %s", what, width, wrong)
		}
		switch width {
		case 1280:
			if top := p.eval(`document.querySelector("#table").getBoundingClientRect().top`); top.(float64) > 300 &&
				p.eval(`$("detail").hidden`) == true {
				p.t.Errorf("%s in %d: the table starts at %v", what, width, top)
			}
		case 1920:
			p.expect(`String(document.querySelector("main").clientWidth)`, "1440")
		}
	}
}
