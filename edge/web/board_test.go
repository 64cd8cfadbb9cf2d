package web_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
	"github.com/chromedp/chromedp/kb"
)

// hostile contains names and symbols that a page must show unchanged. They are the first in the ranking.
var hostile = []struct{ name, symbol string }{
	{`<img src="https://evil.example/x.png" onerror="throw 1">`, `<B>`},
	{`Salt & "Pepper" 'n' </td></table><script>throw 2</script>`, `A&B`},
	{"Österreichische Krone 円 🐕", "ÖK"},
	{"${name} {{.Name}} &lt;b&gt; %3Cb%3E", "&lt;"},
}

// assetCount is the number of assets, which fill three pages.
const assetCount = 45

func assetName(i int) string {
	if i < len(hostile) {
		return hostile[i].name
	}
	return fmt.Sprintf("Asset %02d", i+1)
}

func assetSlug(i int) string { return fmt.Sprintf(`slug"><b>%02d`, i+1) }

// board returns a market with hostile names at a time. newest is the time of the last snapshot.
func board(at, newest time.Time) map[string][]map[string]any {
	type row = map[string]any
	var assets, quotes []row
	var keys []string
	for i := range assetCount {
		key, symbol := fmt.Sprintf("key%02d", i+1), fmt.Sprintf("S%02d", i+1)
		if i < len(hostile) {
			symbol = hostile[i].symbol
		}
		keys = append(keys, key)
		assets = append(assets, row{"key": key, "id": i + 1, "name": assetName(i), "symbol": symbol,
			"slug": assetSlug(i), "logo": "https://evil.example/logo.png",
			"website":   fmt.Sprintf("https://coin%02d.example/?a&b", i+1),
			"explorers": []string{"https://explorer.example/" + symbol, "https://other.example/"}})
		price, marketCap := 2000-i, 90_000_000_000-i*1_000_000_000
		if at.Before(newest) {
			// During the last day, the first prices rose, the last ones fell, and the total market cap
			// doubled. Earlier prices went up and down.
			hours := newest.Sub(at).Hours() - 24
			before := 1000 + i*40 + int(120*math.Sin(hours/9)+60*math.Sin(hours*float64(2+i%5)/7))
			price, marketCap = before+int(max(0, -hours/24)*float64(price-before)), marketCap/2
		}
		quotes = append(quotes,
			row{"key": key, "price": fmt.Sprintf("%d.5", price), "market_cap": marketCap, "volume": "1234567.875"})
	}
	delete(quotes[4], "market_cap") // so it has no rank
	group := func(id int, name string, members []string) row {
		return row{"key": name, "id": id, "name": name, "display_name": name, "slug": name + ">", "members": members}
	}
	market := map[string][]row{
		"assets": assets, "quotes": quotes,
		"exchanges": {
			{"key": "h", "id": 3, "name": "Harbor <b>", "slug": "harbor", "logo": "https://evil.example/logo.png",
				"links": row{"website": "https://harbor.example", "chat": "javascript:alert(1)"},
				"fees":  row{"maker": "0.1", "taker": "0.25"}, "market": row{"volume_24h": "1845213377.125",
					"markets_count": 1812, "coins_count": 240, "data_time": "2026-11-21T11:58:21Z"}},
			{"key": "j", "id": 4, "name": "Jetty", "slug": "jetty"},
			{"key": "p", "id": 5, "name": "Pier", "slug": "pier", "market": row{"volume_24h": "90210.5"}},
		},
		"categories": {group(1, "<i>Category</i>", keys[:30]), group(2, "Small", keys[30:])},
		"chains":     {group(1, "Chain & Co", keys[:10]), group(2, "Ärger", keys[10:])},
	}
	if at.Before(newest) { // so the newest snapshot has changes
		assets[0]["name"], assets[44]["website"] = "<b>Before</b>", ""
		market["exchanges"] = market["exchanges"][:2]
	}
	return market
}

// publish builds snapshots of the market at the given times.
func publish(t *testing.T, store artifacts.Store, times ...time.Time) {
	t.Helper()
	newest := times[len(times)-1]
	teststore.PublishAll(t, store, func(at time.Time) map[string][]map[string]any { return board(at, newest) },
		times...)
	teststore.Change(t, store, newest)
}

// startBoard starts an edge on the market with snapshots of the times past and at. If past is nil, there is
// one snapshot a day earlier.
func startBoard(t *testing.T, at time.Time, authOff bool, past ...time.Time) (base, key string) {
	t.Helper()
	store := memstore.New()
	if past == nil {
		past = []time.Time{at.Add(-24 * time.Hour)}
	}
	publish(t, store, append(past, at)...)
	key = teststore.Key(t, store, 1000, 1000).Key
	base = openapitest.Start(t, edge.Config{Reader: store, AuthOff: authOff})
	openapitest.Await(t, base, key)
	return base, key
}

// mark returns the newest time for which there should be a snapshot.
func mark() time.Time { return time.Now().UTC().Truncate(10 * time.Minute) }

// JavaScript expressions about the state of the board.
const (
	shown       = `!document.querySelector("#listing").hidden && pin && !document.querySelector("#table").hasAttribute("aria-busy")`
	detailShown = `!document.querySelector("#detail").hidden && !document.querySelector("#detail").hasAttribute("aria-busy")`
	assetShown  = detailShown + ` && document.querySelector("#plot canvas")`
	names       = `[...document.querySelectorAll("#table tbody .name")].map((name) => name.textContent)`
	where       = `document.querySelector("#where").textContent`
)

func click(selector string) string {
	return `document.querySelector(` + quote(selector) + `).click()`
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

// texts returns the value of an expression, which must be a list of strings.
func (p *page) texts(expression string) []string {
	p.t.Helper()
	var list []string
	values, _ := p.eval(expression).([]any)
	for _, value := range values {
		list = append(list, fmt.Sprint(value))
	}
	return list
}

// expect fails if the value of an expression is not want.
func (p *page) expect(expression, want string) {
	p.t.Helper()
	if got := p.eval(expression); got != want {
		p.t.Errorf("%s: %v, want %s", expression, got, want)
	}
}

// assetNames returns the names of the assets with the indexes [from, to).
func assetNames(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, assetName(i))
	}
	return list
}

// ranked contains the names of all assets by rank. The asset without a rank comes last.
var ranked = append(append(assetNames(0, 4), assetNames(5, assetCount)...), assetName(4))

// hourly returns the times of the given number of hours before at.
func hourly(at time.Time, hours int) (times []time.Time) {
	for ; hours > 0; hours-- {
		times = append(times, at.Add(time.Duration(-hours)*time.Hour))
	}
	return times
}

// TestBoard looks at the board of an edge that admits everyone, in every view.
func TestBoard(t *testing.T) {
	at := mark()
	base, _ := startBoard(t, at, true, hourly(at, 7*24)...)
	b := startBrowser(t)
	const headAt = `String(document.querySelector("#table th").getBoundingClientRect().top)`
	for name, v := range views {
		t.Run("view"+name, func(t *testing.T) {
			p := b.open(t, v)
			p.goTo(base + "/")
			lines := 20
			if v.phone {
				lines = 0 // there is no room for them, so the board does not request them
			}
			p.await(shown + ` && document.querySelectorAll("#table .line svg").length === ` + strconv.Itoa(lines))
			if p.asked("/history?") == v.phone {
				t.Errorf("the lines of a table were asked for: %t", !v.phone)
			}
			// About 8,000 of these bytes are the exposed headers, which every answer lists.
			if bytes := p.bytes(); bytes == 0 || bytes > 90_000 {
				t.Errorf("the first screen is %v bytes on the wire", bytes)
			}
			p.checkFits()
			p.checkDark(v.dark)
			p.checkContrast()
			p.checkAxe("board")
			p.expect(`document.querySelector("#key-form").hidden && document.querySelector("#forget").hidden ? "no key" : "a key"`, "no key")
			// The market caps are 90 to 46 billion, without that of the fifth asset.
			p.expect(`document.querySelector("#totals").innerText.split(/\s*\n\s*/).join("|")`,
				"Market cap|$2.97\u00a0T|Volume 24 h|$54.32\u00a0M|Change 24 h|+100.00%|<B>|3.03%|A&B|2.99%|Assets|45|As of|"+
					at.Format("2006-01-02 15:04 UTC"))
			if got := p.texts(names); !slices.Equal(got, ranked[:20]) {
				t.Errorf("listing: %q, want %q", got, ranked[:20])
			}
			p.expect(`document.querySelector("#table tbody .symbol").textContent`, hostile[0].symbol)
			p.expect(`document.querySelector("#table tbody td.price").textContent`, "$2,000.50")
			p.expect(`document.querySelector("#table tbody td.price span").title`, "2000.5")
			p.expect(where, "Page 1 of 3, 45 rows")
			p.expect(`/^Snapshot of `+at.Format(time.DateOnly)+
				` \d\d:\d0 UTC, (just now|\d+ min ago), next (in \d:\d\d|is due)$/.test(document.querySelector("#age").textContent) ? "" : document.querySelector("#age").textContent`, "")
			// When the page is scrolled, the head of the table stays in view and does not cover the focused
			// row.
			p.eval(`document.querySelector("#next").scrollIntoView({ block: "end" })`)
			p.expect(headAt, "0")
			p.eval(`document.querySelector("#table").style.minWidth = "150vw"`)
			p.await(`document.querySelector("#scroll").matches(".scroll")`)
			p.expect(headAt, "0")
			p.eval(`document.querySelector("#table").style.minWidth = ""`)
			p.await(`!document.querySelector("#scroll").matches(".scroll")`)
			p.expect(`(() => {
				const link = document.querySelector("#table tbody tr:nth-child(5) a");
				link.closest("tr").scrollIntoView();
				link.focus();
				return String(link.getBoundingClientRect().top >= document.querySelector("#table th").getBoundingClientRect().bottom);
			})()`, "true")
			for _, view := range []struct {
				name, link, first string
				rows              int
			}{{"categories", "categories", "<i>Category</i>", 2}, {"chains", "chains", "Ärger", 2},
				{"changes", "new", hostile[0].name, 3}, {"exchanges", "exchanges", "Harbor <b>", 3}} {
				p.eval(click(`[href="?view=` + view.name + `"]`))
				p.await(shown + ` && location.search === "?view=` + view.name +
					`" && document.querySelector("#views [aria-current]").textContent.toLowerCase() === "` + view.link + `"`)
				p.checkFits()
				p.checkAxe(view.name)
				if got := p.texts(names); len(got) != view.rows || got[0] != view.first {
					t.Errorf("%s: %q", view.name, got)
				}
			}
			if v.phone { // narrow windows do not show all columns
				p.eval(`(() => { const order = document.querySelector("#order"); order.value = "volume:asc"; order.dispatchEvent(new Event("change")); })()`)
				p.await(shown + ` && location.search === "?view=exchanges&sort=volume%3Aasc" && ` + names +
					`[0] === "Jetty"`)
			}
			p.goTo(base + "/?asset=" + url.QueryEscape(assetSlug(5)))
			p.await(assetShown)
			p.point("#plot .u-over", 0.4)
			p.await(`document.querySelector("#plot").ariaValueNow < 80`)
			p.checkFits()
			p.checkAxe("asset")
			p.eval(click("#points-of summary"))
			p.checkAxe("points")
			// No part of a name became markup or was loaded.
			p.expect(`String(document.querySelectorAll("table img, table i, table b, table script, #totals b, #detail img, #detail b").length)`, "0")
			p.checkStayed(base)
		})
	}
}

// checkContrast fails if the contrast between a text colour and one of its background colours is lower than
// WCAG 2 requires for text of normal size (AA).
func (p *page) checkContrast() {
	p.t.Helper()
	for _, bad := range p.texts(`(() => {
		const style = getComputedStyle(document.documentElement);
		const luminance = (name) => {
			let hex = style.getPropertyValue("--" + name).trim().slice(1);
			if (hex.length === 3) hex = [...hex].map((c) => c + c).join("");
			const [r, g, b] = hex.match(/../g).map((c) => parseInt(c, 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const pairs = ["text back", "text panel", "text over", "soft back", "soft panel", "soft over", "star panel", "star over", "star back", "link back", "link panel", "up panel", "up over", "up up-back", "down panel", "down over", "down down-back", "warn warn-back"];
		return pairs.map((pair) => {
			const [low, high] = pair.split(" ").map(luminance).sort((a, b) => a - b);
			return [pair, (high + 0.05) / (low + 0.05)];
		}).filter(([, ratio]) => !(ratio >= 4.5)).map(String);
	})()`) {
		p.t.Errorf("contrast of %s is below 4.5", bad)
	}
}

// bytes returns the number of bytes received.
func (p *page) bytes() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

// TestBoardListing sorts and pages listings, with the mouse and through the URL, and goes back.
func TestBoardListing(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	check := func(query, position string, first ...string) {
		t.Helper()
		p.await(shown + ` && location.search === ` + quote(query) + ` && ` + where + ` === ` + quote(position) +
			` && ` + names + `.join("|").startsWith(` + quote(strings.Join(first, "|")) + `)`)
	}
	// A new page starts at its top. Going back restores the scroll position.
	const atTop = `(({ top }) => (top > -1 ? "at the top" : String(top)))(document.querySelector("#listing").getBoundingClientRect())`
	p.eval(`document.querySelector("#next").scrollIntoView({ block: "end" })`)
	y := p.eval(`scrollY`)
	p.eval(click("#next"))
	check("?view=assets&page=2", "Page 2 of 3, 45 rows", ranked[20:40]...)
	p.expect(atTop, "at the top")
	p.eval(click("#next"))
	check("?view=assets&page=3", "Page 3 of 3, 45 rows", ranked[40:]...)
	p.expect(`String(document.querySelector("#next").disabled)`, "true")
	p.eval(`history.back()`)
	check("?view=assets&page=2", "Page 2 of 3, 45 rows", ranked[20:40]...)
	p.eval(`history.back()`)
	check("", "Page 1 of 3, 45 rows", ranked[0])
	p.await(fmt.Sprint(`scrollY === `, y))
	p.eval(click("#next"))
	check("?view=assets&page=2", "Page 2 of 3, 45 rows", ranked[20:40]...)
	p.eval(click("#previous"))
	check("?view=assets", "Page 1 of 3, 45 rows", ranked[0])

	// Sort by name. The first click sorts in ascending order, and a new order starts at page 1.
	byName := func(order string) string {
		return `document.querySelector("th[aria-sort] .on").textContent + " " + document.querySelector("th[aria-sort]").ariaSort === "Name ` + order + `"`
	}
	p.eval(click("#next"))
	check("?view=assets&page=2", "Page 2 of 3, 45 rows")
	p.eval(click("[data-sort=name]"))
	check("?view=assets&sort=name%3Aasc", "Page 1 of 3, 45 rows", hostile[3].name, hostile[0].name, "Asset 05")
	p.await(byName("ascending"))
	p.eval(click("[data-sort=name]"))
	check("?view=assets&sort=name%3Adesc", "Page 1 of 3, 45 rows", hostile[2].name, hostile[1].name, "Asset 45")
	p.await(byName("descending"))

	// Sort by symbol, and show more rows.
	p.eval(click("[data-sort=symbol]"))
	check("?view=assets&sort=symbol%3Aasc", "Page 1 of 3, 45 rows", hostile[3].name, hostile[0].name, hostile[1].name,
		"Asset 05")
	p.eval(`document.querySelector("#next").scrollIntoView(); document.querySelector("#numbers a:last-child").click()`)
	check("?view=assets&sort=symbol%3Aasc&page=3", "Page 3 of 3, 45 rows")
	p.expect(atTop, "at the top")
	p.eval(`(() => { const rows = document.querySelector("#rows"); rows.value = 50; rows.dispatchEvent(new Event("change")); })()`)
	check("?view=assets&sort=symbol%3Aasc&rows=50", "Page 1 of 1, 45 rows", hostile[3].name)
	p.await(`document.querySelectorAll("#table .line svg").length === 45`)
	if got := p.texts(names); len(got) != assetCount {
		t.Errorf("%d of %d rows", len(got), assetCount)
	}

	// Open URLs with valid and invalid parameters.
	for _, c := range []struct{ query, position, first string }{
		{"?view=chains&sort=name:asc", "Page 1 of 1, 2 rows", "Chain & Co"},
		{"?view=exchanges&sort=volume:asc", "Page 1 of 1, 3 rows", "Jetty"},
		{"?view=exchanges&rows=7", "Page 1 of 1, 3 rows", "Harbor <b>"},
		{"?view=changes&rows=50", "Page 1 of 1, 3 rows", hostile[0].name},
		{"?view=categories&sort=market_cap:asc", "Page 1 of 1, 2 rows", "Small"},
		{"?view=__proto__&sort=__proto__:asc&page=-1", "Page 1 of 3, 45 rows", hostile[0].name},
		{"?view=coins&sort=price:up", "Page 1 of 3, 45 rows", hostile[0].name},
	} {
		p.goTo(base + "/" + c.query)
		check(c.query, c.position, c.first)
	}
	p.goTo(base + "/?view=changes")
	check("?view=changes", "Page 1 of 1, 3 rows", hostile[0].name, "Asset 45", "Pier")
	for i, what := range []string{"name: <b>Before</b> \u2192 " + hostile[0].name, "links", "exchange added"} {
		p.expect(fmt.Sprintf(`document.querySelectorAll("#table tbody tr")[%d].cells[1].textContent`, i), what)
	}
	p.eval(click("#table tbody tr:nth-child(3) a"))
	p.await(`location.search === "?exchange=5"`)
	p.goTo(base + "/?page=900") // leads to the last page
	check("?view=assets&page=3", "Page 3 of 3, 45 rows", ranked[40:]...)
	p.checkStayed(base)
}

// TestBoardKeyboard uses the board without a mouse, and checks that the focus stays when the listing is
// replaced.
func TestBoardKeyboard(t *testing.T) {
	at := mark()
	base, _ := startBoard(t, at, true)
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	// The Tab key reaches every control in the order of the page.
	focused := `(document.activeElement.id || document.activeElement.dataset.sort || document.activeElement.getAttribute("href") || document.activeElement.textContent.trim() || document.activeElement.className)`
	var order []string
	want := []string{"q", "/docs", "theme", "?view=assets", "?view=favourites", "?view=categories", "?view=chains",
		"?view=exchanges", "?view=changes", "?view=assets", "?view=assets&sort=percent_change.24h%3Adesc",
		"?view=assets&sort=percent_change.24h%3Aasc", "?view=assets&sort=volume%3Adesc",
		"rank", "name", "symbol", "price", "percent_change.1h", "percent_change.24h",
		"percent_change.7d", "percent_change.30d", "market_cap", "volume"}
	for range 20 {
		want = append(want, "star", "?asset")
	}
	want = append(want, "?view=assets", "?view=assets&page=2", "?view=assets&page=3", "next", "rows", "/docs")
	for range want {
		p.key(kb.Tab)
		order = append(
			order, fmt.Sprint(p.eval(focused+`.replace(/^[?]asset=.*/, "?asset").replace(/^star-.*/, "star")`)))
	}
	if !slices.Equal(order, want) {
		t.Errorf("Tab goes to %q, want %q", order, want)
	}
	p.key(kb.Tab)
	p.expect(`document.activeElement.tagName`, "BODY") // after the last control, the focus leaves the page
	tabTo := func(name string) {
		t.Helper()
		for range 90 {
			if p.key(kb.Tab); p.eval(focused) == name {
				return
			}
		}
		t.Fatalf("Tab never gets to %s", name)
	}
	tabTo("name")
	p.key(kb.Enter)
	p.await(shown + ` && location.search === "?view=assets&sort=name%3Aasc" && document.querySelector("th[aria-sort=ascending] button").dataset.sort === "name"`)
	p.expect(focused, "name")
	tabTo("next")
	p.key(kb.Enter)
	p.await(shown + ` && ` + where + `.startsWith("Page 2")`)
	p.expect(focused, "next")
	p.key(kb.Enter)
	p.await(shown + ` && ` + where + `.startsWith("Page 3")`)
	p.expect(focused, "previous") // because there is no next page
	tabTo("rows")
	p.key(kb.ArrowDown)
	p.await(shown + ` && location.search.endsWith("&rows=50") && ` + where + ` === "Page 1 of 1, 45 rows"`)
	p.expect(focused, "rows")
	tabTo("?view=chains")
	p.key(kb.Enter)
	p.await(shown + ` && document.querySelector("#table caption").textContent === "Chains"`)
	p.expect(focused, "?view=chains")

	// Open the page of an asset, and go back to its row.
	tabTo("?view=assets")
	p.key(kb.Enter)
	p.await(shown + ` && document.querySelector("#table caption").textContent === "Assets"`)
	to := "?" + url.Values{"asset": {assetSlug(6)}}.Encode()
	tabTo("name")
	tabTo(to)
	p.key(kb.Enter)
	p.await(assetShown + ` && location.search === ` + quote(to))
	p.expect(focused, "detail-name")
	tabTo(to + "&window=24h")
	p.key(kb.Enter)
	p.await(assetShown + ` && location.search === ` + quote(to+"&window=24h"))
	p.expect(focused, to+"&window=24h")
	tabTo("plot")
	const told = `document.querySelector("#point p").textContent + "|" + document.querySelector("#plot").ariaValueText.split(", market cap")[0]`
	newest, before := at.Format("2006-01-02 15:04 UTC"), at.Add(-24*time.Hour).Format("2006-01-02 15:04 UTC")
	last, first := "$1,994.5 "+newest+"|$1,994.5, "+newest, "$1,240.5 "+before+"|$1,240.5, "+before
	p.expect(told, last)
	p.expect(`document.querySelector("#range p").textContent`, "Range $1,240.50$1,994.50")
	for _, step := range []struct{ key, want string }{{kb.ArrowLeft, first}, {kb.ArrowLeft, first},
		{kb.ArrowRight, last}, {kb.ArrowRight, last}, {kb.Home, first}, {kb.End, last}} {
		p.key(step.key)
		p.expect(told, step.want)
	}
	tabTo("Points as a table")
	p.key(kb.Enter)
	p.expect(`document.querySelector("#points tbody").innerText.split(/\s*[\t\n]\s*/).join("|")`,
		newest+"|$1,994.5|"+before+"|$1,240.5")
	tabTo("back")
	p.key(kb.Enter)
	p.await(shown + ` && document.querySelector("#detail").hidden`)
	p.expect(focused, to)
	// The focused element has a visible outline.
	p.expect(`getComputedStyle(document.activeElement).outlineStyle`, "solid")
	p.checkStayed(base)
}

// TestBoardFavourites adds and removes favourites, with keys and with the mouse, and checks their listing,
// also after changes in another tab. The browser must store only ids, and no more than a request may
// contain.
func TestBoardFavourites(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	b := startBrowser(t)
	const (
		stored  = `JSON.stringify(localStorage)`
		pressed = `[...document.querySelectorAll("#table .star")].map((star, i) => (star.ariaPressed === "true" ? i : "")).join("")`
		listed  = shown + ` && location.search === "?view=favourites" && `
	)
	is := func(ids string) string { return quote(`{"market-board-favourites":"` + ids + `"}`) }
	for name, v := range views {
		t.Run("view"+name, func(t *testing.T) {
			p := b.open(t, v)
			p.goTo(base + "/?view=favourites")
			p.await(listed + `document.querySelector("#table tbody").innerText.startsWith("None yet. ")`)
			p.expect(stored, "{}")
			p.checkAxe("no favourites")
			p.checkFits()
			p.shoot("favourites-none" + name)
			p.eval(click(`[href="?view=assets"]`))
			p.await(shown + ` && location.search === "?view=assets"`)
			for _, id := range []string{"9", "2"} {
				p.eval(`document.querySelector("#star-` + id + `").focus()`)
				p.key(kb.Enter)
			}
			p.expect(`document.activeElement.ariaLabel + " " + document.activeElement.ariaPressed`,
				"Favourite: "+assetName(1)+" true")
			p.expect(pressed, "17")
			p.expect(stored, `{"market-board-favourites":"[9,2]"}`)
			p.eval(click(`[href="?view=favourites"]`))
			p.await(listed + names + `.join("|") === ` + quote(assetName(1)+"|"+assetName(8)))
			p.checkAxe("favourites")
			p.checkFits()
			p.shoot("favourites" + name)
			// A star on the page of an asset changes the listing in another tab.
			other := p.tab()
			other.goTo(base + "/?asset=" + url.QueryEscape(assetSlug(5)))
			other.await(assetShown)
			other.eval(click("#star"))
			other.checkAxe("star")
			p.await(listed + names + `.join("|") === ` +
				quote(strings.Join([]string{assetName(1), assetName(5), assetName(8)}, "|")))
			// A mistake can be undone.
			p.eval(click("#star-2"))
			p.expect(names+`.length + "|" + `+pressed, "3|12")
			p.eval(click("#star-2"))
			p.await(stored + ` === ` + is("[9,6,2]"))
			p.eval(click("#star-2"))
			p.call("Page.reload", nil)
			p.await(`document.readyState === "complete" && ` + listed + names + `.length === 2`)
			p.checkStayed(base)
		})
	}

	// The board ignores other stored values, and everything after the hundredth id.
	p := b.open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	p.eval(`localStorage.setItem("market-board-favourites", JSON.stringify(["<b>", -1, 1.5, null, ...Array.from({ length: 120 }, (_, i) => i + 6)]))`)
	p.goTo(base + "/?view=favourites&rows=50")
	p.await(shown + ` && ` + names + `.length === 40`)
	p.goTo(base + "/")
	p.await(shown)
	p.eval(click("#star-1"))
	p.expect(problem, "You can have at most 100 favourites.")
	p.expect(`document.querySelector("#star-1").ariaPressed`, "false")
	p.eval(`localStorage.setItem("market-board-favourites", "{")`)
	p.call("Page.reload", nil)
	p.await(`document.readyState === "complete" && ` + shown)
	p.eval(click("#star-1"))
	p.expect(stored, `{"market-board-favourites":"[1]"}`)
	p.checkStayed(base)
}

// TestBoardSearch searches for assets, with keys and with the mouse.
func TestBoardSearch(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	b := startBrowser(t)
	const (
		foundNames = `[...document.querySelectorAll("#found .name")].map((name) => name.textContent).join("|")`
		says       = `document.querySelector("#found-says").textContent`
		closed     = `document.querySelector("#found").hidden && document.querySelector("#q").ariaExpanded === "false" && ` + says + ` === ""`
		selected   = `[...document.querySelectorAll("#found [aria-selected=true]")].map((option) => option.id).join() + "|" + document.querySelector("#q").getAttribute("aria-activedescendant")`
	)
	for name, v := range views {
		t.Run("view"+name, func(t *testing.T) {
			p := b.open(t, v)
			p.goTo(base + "/?view=chains")
			p.await(shown)
			p.slash()
			p.expect(`document.activeElement.id + document.activeElement.value`, "q")
			p.insert("asset s0")
			p.await(foundNames + ` === "Asset 06|Asset 07|Asset 08|Asset 09|Asset 05"`) // ranked, then unranked
			p.expect(says, "5 assets")
			p.checkAxe("search")
			p.checkFits()
			p.key(kb.ArrowUp)
			p.expect(selected, "found-4|found-4")
			p.key(kb.ArrowDown)
			p.key(kb.ArrowDown)
			p.expect(selected, "found-1|found-1")
			p.shoot("search" + name)
			p.key(kb.Enter)
			p.await(assetShown + ` && document.title.startsWith("Asset 07 ") && ` + closed)
			p.expect(`document.activeElement.id`, "detail-name")
			p.checkStayed(base)
		})
	}

	p := b.open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	find := func(text string) {
		p.eval(`document.querySelector("#q").select()`)
		p.insert(text)
	}
	for _, c := range []struct{ text, names, says string }{
		{"ÖK", hostile[2].name, "1 asset"},
		{"KRONE öst", hostile[2].name, "1 asset"},
		{"<b>", hostile[0].name, "1 asset"},
		{"nope", "", "No assets found. A single letter matches only a whole word."},
		{"a b c d e f g h i", "", "Too long: enter at most 8 words and 64 letters."},
	} {
		find(c.text)
		p.await(foundNames + ` === ` + quote(c.names) + ` && ` + says + ` === ` + quote(c.says))
	}
	p.shoot("search-none")
	// Escape first closes the list, and then empties the field. An empty field sends no request.
	find("s1")
	p.await(`document.querySelectorAll("#found li").length === 10`)
	p.key(kb.Escape)
	p.await(closed + ` && document.querySelector("#q").value === "s1"`)
	p.key(kb.Escape)
	p.await(`document.querySelector("#q").value === ""`)
	find("asset")
	p.await(`document.querySelectorAll("#found li").length === 20 && ` + says +
		` === "The first 20 assets. Type more letters to find others."`)
	// Letters that are typed quickly cause only one request. Enter opens the first result.
	before := p.count("/search?")
	p.eval(`for (const q of ["s", "s0", "s08"]) { document.querySelector("#q").value = q; document.querySelector("#q").dispatchEvent(new Event("input")); }`)
	p.key(kb.Enter)
	p.await(assetShown + ` && document.title.startsWith("Asset 08 ")`)
	if n := p.count("/search?") - before; n != 1 {
		t.Errorf("%d questions for letters at once", n)
	}
	// Open a result with the mouse. The list says why a text cannot be searched for.
	p.eval(`document.querySelector("#q").focus()`)
	p.insert("s09")
	p.await(foundNames + ` === "Asset 09"`)
	p.eval(click("#found-0"))
	p.await(assetShown + ` && document.title.startsWith("Asset 09 ")`)
	p.block("*/search?*")
	p.eval(`document.querySelector("#q").focus()`)
	p.insert("s10")
	p.await(says + ` === "The service cannot be reached."`)
	p.checkAxe("search fails")
	p.shoot("search-error")
	p.key(kb.Tab)
	p.await(closed)
	p.checkStayed(base, "ERR_BLOCKED_BY_CLIENT")
}

// TestMeant checks that the asset that a reader probably means comes first. Each asset is given by its
// symbol, name and rank.
func TestMeant(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	for _, c := range []struct{ q, found, want string }{
		{"bitcoin", "BITCOIN HarryPotterObama 250|BTC Bitcoin 1|BCH Bitcoin_Cash 20", "BTC BITCOIN BCH"},
		{"bit", "BIT BitDAO 3500|BTC Bitcoin 1|BTT BitTorrent 140", "BTC BIT BTT"},
		{"SOL", "SOL Solana 5|SOLX Solaxy 900|SOLVE Solve 60", "SOL SOLVE SOLX"},
		{"eth", "ETH Ethereum 2|ETH Fake -|ETHW EthereumPoW 300|ETC Ethereum_Classic 30", "ETH2 ETC ETH- ETHW"},
	} {
		p.expect(`meant(`+quote(c.found)+`.split("|").map((row) => row.split(" ")).map(([symbol, name, rank]) =>
			({ symbol, name, slug: name, ...(rank !== "-" && { rank: Number(rank) }) })), `+quote(c.q)+`).map((row) =>
			row.symbol + (row.symbol === "ETH" ? row.rank ?? "-" : "")).join(" ")`, c.want)
	}
}

// TestBoardKey opens the board of an edge that requires keys: without a key, with wrong keys and with a
// valid one.
func TestBoardKey(t *testing.T) {
	base, key := startBoard(t, mark(), false)
	b := startBrowser(t)
	p := b.open(t, desktop)
	const (
		form   = `!document.querySelector("#key-form").hidden && document.querySelector("#board").hidden`
		stored = `JSON.stringify([sessionStorage.length, localStorage.length, document.cookie, document.querySelector("#key").value])`
	)
	enter := func(text string) {
		t.Helper()
		p.expect(`document.activeElement.id`, "key")
		p.insert(text)
		p.key(kb.Enter)
	}
	p.goTo(base + "/")
	p.await(form)
	p.shoot("board-key")
	p.checkAxe("key")
	p.checkFits()
	p.expect(problem, "")
	if p.asked("/openapi/") {
		t.Error("the API was asked without a key")
	}
	for _, text := range []string{"hello", "mdk_live_ключ", key + "x"} {
		enter(text)
		p.await(form + ` && ` + problem + `.startsWith("This key is incomplete: ")`)
		p.eval(`document.querySelector("#key").value = ""`)
	}
	if p.asked("/openapi/") {
		t.Error("the API was asked with what is no key")
	}
	enter("mdk_live_" + strings.Repeat("0", 39))
	p.await(form + ` && ` + problem + `.startsWith("This key is not valid")`)
	p.expect(stored, `[0,0,"",""]`)
	p.shoot("board-key-wrong")

	enter(" " + key + " ")
	p.await(shown)
	p.expect(problem, "")
	p.expect(stored, `[1,0,"",""]`)
	p.expect(`String(document.querySelector("#key-form").hidden)`, "true")
	if got := p.texts(names); !slices.Equal(got, ranked[:20]) {
		t.Errorf("listing: %q", got)
	}
	// The key survives a reload, and no URL contains it.
	p.call("Page.reload", nil)
	p.await(`document.readyState === "complete" && ` + shown)
	if p.asked(key) {
		t.Error("the key was part of an address")
	}
	p.await(`hearing`) // events also need the key
	// Another tab gets the key from this one. If one tab forgets the key, so does the other.
	other := p.tab()
	other.goTo(base + "/")
	other.await(shown)
	other.expect(stored, `[1,0,"",""]`)
	other.eval(click("#forget"))
	for _, p := range []*page{p, other} {
		p.await(form + ` && !hearing`)
		p.expect(stored, `[0,0,"",""]`)
	}
	other.insert(key)
	other.key(kb.Enter)
	for _, p := range []*page{p, other} {
		p.await(shown + ` && document.querySelector("#key-form").hidden && ` + problem + ` === ""`)
	}
	other.checkStayed(base)
	p.eval(click("#forget"))
	p.await(form + ` && !hearing`)
	other.await(form)

	// A link can contain a key. The page removes it from the URL before it sends a request, even if the
	// page is already open.
	wrong := "mdk_live_" + strings.Repeat("0", 39)
	for _, c := range []struct{ key, then string }{
		{"mdk_live_0", form + ` && ` + problem + `.startsWith("This key is incomplete: ")`},
		{wrong, form + ` && ` + problem + `.startsWith("This key is not valid")`},
		{key, shown + ` && ` + problem + ` === ""`},
	} {
		p.goTo(base + "/?view=chains#key=" + c.key)
		p.await(c.then + ` && location.href === ` + quote(base+"/?view=chains"))
	}
	// A link does not replace a key that the tab already has.
	for _, other := range []string{wrong, "mdk_live_0"} {
		p.goTo(base + "/#key=" + other)
		p.await(shown + ` && location.href === ` + quote(base+"/") + ` && heldKey() === ` + quote(key) + ` && ` +
			problem + ` === ""`)
	}
	if p.asked(key) {
		t.Error("the key was part of an address")
	}
	late := b.open(t, desktop)
	late.goTo(base + "/#key=" + key)
	late.await(shown + ` && location.href === ` + quote(base+"/") + ` && history.length <= 2`)
	late.checkStayed(base)
	p.eval(click("#forget"))
	p.await(form + ` && !hearing`)
	p.call("Page.reload", nil)
	p.await(`document.readyState === "complete" && ` + form)
	p.checkStayed(base, "401 (Unauthorized)")
}

// problem is the message at the top of the board.
const problem = `(document.querySelector("#problem").hidden ? "" : document.querySelector("#problem").textContent)`

// TestBoardAsset looks at the pages of an asset whose prices have gaps, of an asset without a price, and of
// an unknown asset.
func TestBoardAsset(t *testing.T) {
	at := mark()
	const tail = "0000000000000001" // gives a price more digits than a double can hold
	store := memstore.New()
	times := []time.Time{at.Add(-40 * 24 * time.Hour), at.Add(-30 * time.Hour), at.Add(-5 * time.Hour),
		at.Add(-4 * time.Hour), at.Add(-10 * time.Minute), at}
	teststore.PublishAll(t, store, func(when time.Time) map[string][]map[string]any {
		rows := board(when, at)
		rows["quotes"] = rows["quotes"][1:]
		rows["quotes"][4]["price"] = fmt.Sprint(rows["quotes"][4]["price"], tail)
		rows["assets"][1]["slug"] = "a,b"
		rows["assets"][1]["website"] = "javascript:alert(1)"
		return rows
	}, times...)
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
	openapitest.Await(t, base, "")
	p := startBrowser(t).open(t, desktop)
	const point = `document.querySelector("#point p").textContent`
	said := func(i int) string {
		price := board(times[i], at)["quotes"][5]["price"].(string)
		return "$" + price[:1] + "," + price[1:] + tail + " " + times[i].Format("2006-01-02 15:04 UTC")
	}

	p.goTo(base + "/")
	p.await(shown + ` && document.querySelectorAll("#table .line svg").length === 20`)
	// A single request reads the prices for the lines of a page.
	if n := p.count("/history?"); n != 1 {
		t.Errorf("%d requests for the lines", n)
	}
	p.expect(`document.querySelector("#table tbody tr:nth-child(4) .line").ariaLabel`, "From $1,333.50 to $1,995.50")
	p.eval(`[...document.querySelectorAll("#table a")].find((link) => link.textContent.includes("Asset 06")).click()`)
	p.await(assetShown + ` && document.title === "Asset 06 (S06) \u00b7 Market board"`)
	p.expect(`location.search`, "?"+url.Values{"asset": {assetSlug(5)}}.Encode())
	p.expect(`[...document.querySelectorAll("#links a")].map((link) => link.textContent + " " + link.href + " " + link.rel).join("|")`,
		"Website https://coin06.example/?a&b noopener noreferrer nofollow ugc|explorer.example https://explorer.example/S06 noopener noreferrer nofollow ugc|other.example https://other.example/ noopener noreferrer nofollow ugc")
	p.expect(`document.querySelector("#facts").innerText.split(/\s*\n\s*/).slice(0, 6).join("|")`,
		"Rank|4|Market cap|$85.00\u00a0B|Volume 24 h|$1.23\u00a0M")
	// The current price is the highest of the day, and the price five hours ago is the lowest.
	p.await(`document.querySelector("#facts .between")`)
	p.expect(`[...document.querySelectorAll("#facts .between > span")].map((e) => e.textContent).join("|") + "|" +
		document.querySelector("#facts .between > i > i").style.left`, "$1,817.50|$1,995.50|100%")
	p.expect(point, said(5))
	p.point("#plot .u-over", 0)
	p.await(point + ` === ` + quote(said(1)))
	p.eval(`document.querySelector("#plot").focus()`)
	p.key(kb.End)
	p.await(point + ` === ` + quote(said(5)))

	// Another window has another URL. Going back leads to the previous window, and then to the listing.
	p.eval(click(`#windows a:nth-child(4)`))
	p.await(assetShown + ` && location.search.endsWith("&window=90d") && document.querySelector("#windows [aria-current]").textContent.startsWith("90d+75.12% since ")`)
	p.point("#plot .u-over", 0)
	p.await(point + ` === ` + quote(said(0)))
	p.eval(`history.back()`)
	p.await(assetShown + ` && document.querySelector("#windows [aria-current]").textContent === "7d+49.64%" && ` + point +
		` === ` + quote(said(5)))
	p.eval(`history.back()`)
	p.await(shown + ` && document.querySelector("#detail").hidden`)

	// Check the pages while prices are being loaded, and when loading fails.
	hold := func(pattern string) {
		p.call("Fetch.enable", map[string]any{"patterns": []map[string]string{{"urlPattern": pattern}}})
	}
	hold("*/global")
	p.goTo(base + "/")
	p.await(`document.querySelectorAll("#table tbody tr").length === 20 && document.querySelector("#table tbody .skeleton")`)
	p.shoot("board-loading")
	p.checkAxe("first loading")
	p.call("Fetch.disable", nil)
	p.await(shown)
	hold("*/assets?*")
	p.eval(click("#next"))
	p.await(`document.querySelector("#table[aria-busy]")`)
	p.shoot("board-waiting")
	p.checkAxe("waiting")
	p.call("Fetch.disable", nil)
	p.await(shown + ` && location.search.endsWith("page=2")`)
	hold("*/history?*")
	p.goTo(base + "/?asset=" + url.QueryEscape(assetSlug(6)) + "&window=30d")
	p.await(`!document.querySelector("#detail").hidden && document.querySelector("#chart .skeleton") && document.querySelector("#facts").innerText.includes("$84.00")`)
	p.shoot("asset-loading")
	p.checkAxe("loading")
	p.call("Fetch.disable", nil)
	p.await(assetShown)
	p.block("*/history?*")
	p.eval(click("#windows a:nth-child(5)"))
	const chart = `document.querySelector("#chart").innerText.trim()`
	p.await(chart + ` === "The prices could not be loaded: The service cannot be reached. Try again"`)
	p.shoot("asset-error")
	p.checkAxe("error")
	p.block()
	p.eval(click("#chart button"))
	p.await(assetShown)

	// Check pages without prices and without an asset. A URL that does not lead to the web is not a link.
	p.goTo(base + "/?asset=" + url.QueryEscape(assetSlug(0)) + "&window=24h")
	p.await(chart + ` === "There are no prices for the last 24 hours."`)
	p.expect(`document.querySelector("#detail-head .price").textContent`, "\u2013 \u2013")
	p.shoot("asset-none")
	p.checkAxe("no points")
	// A favourite without a price is listed, even if it is the only one.
	for ids, want := range map[string]string{"[1]": assetName(0), "[1,7]": assetName(6) + "|" + assetName(0)} {
		p.eval(`localStorage.setItem("market-board-favourites", ` + quote(ids) + `)`)
		p.goTo(base + "/?view=favourites")
		p.await(shown + ` && ` + names + `.join("|") === ` + quote(want))
		p.expect(`document.querySelector("#table tbody tr:last-child .price").textContent`, "\u2013")
	}
	p.goTo(base + "/?asset=nope%3Cb%3E")
	p.await(`document.querySelector("#detail-name")?.textContent === "No asset is listed at this address."`)
	p.shoot("asset-unknown")
	p.checkAxe("no asset")
	p.goTo(base + "/")
	p.await(shown)
	p.eval(`[...document.querySelectorAll("#table a")].find((link) => link.href.includes("id=")).click()`)
	p.await(assetShown + ` && location.search === "?id=2"`)
	p.expect(`String(document.querySelectorAll("#links a").length) + document.querySelector("#links").innerText.includes("Website")`, "2true")
	p.checkStayed(base, "ERR_BLOCKED_BY_CLIENT")
}

// TestBoardDetails follows links between the pages of exchanges, groups and their coins.
func TestBoardDetails(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	p := startBrowser(t).open(t, desktop)
	follow := func(name, title string, facts ...string) {
		t.Helper()
		p.eval(`[...document.querySelectorAll("#table tbody a, #groups a")].find((link) => (link.querySelector(".name") ?? link).textContent.startsWith(` + quote(name) +
			`)).click()`)
		p.await(detailShown + ` && document.title === ` + quote(title+" · Market board"))
		p.expect(`document.activeElement.id`, "detail-name")
		p.expect(`document.querySelector("#facts").innerText.split(/\s*\n\s*/).slice(0, `+strconv.Itoa(len(facts))+
			`).join("|")`, strings.Join(facts, "|"))
		p.checkAxe(title)
		p.checkFits()
	}
	const links, groups = `document.querySelector("#links").innerText.split(/\s*\n\s*/).join("|")`,
		`document.querySelector("#groups").innerText.split(/\s*\n\s*/).join("|")`
	p.goTo(base + "/?view=exchanges")
	p.await(shown)
	p.expect(`document.querySelector("#table tbody").innerText.split(/\s*[\t\n]\s*/).join("|")`,
		"H|Harbor <b>|$1.85\u00a0B|1,812|240|0.1|0.25|2026-11-21 11:58 UTC|P|Pier|$90.21\u00a0K|–|–|0|0|–|J|Jetty|–|–|–|0|0|–")
	follow("Harbor", "Harbor <b>", "By volume", "#1 of 3",
		"Volume 24 h", "$1.85\u00a0B", "Markets", "1,812", "Coins", "240", "Maker fee",
		"0.1", "Taker fee", "0.25", "As of", "2026-11-21 11:58 UTC")
	p.expect(links, "Website|Chat")
	p.expect(`[...document.querySelectorAll("#links a")].map((link) => link.href).join()`, "https://harbor.example/")
	p.expect(`document.querySelector("#near").innerText.split(/\s*\n\s*/).join("|")`, "Pier $90.21\u00a0K")
	p.expect(`document.querySelector("#back").textContent + location.search`, "All exchanges?exchange=3")
	p.eval(click("#back"))
	p.await(shown)
	follow("Jetty", "Jetty", "Volume 24 h", "–", "Markets", "–", "Coins", "–", "Maker fee", "0")
	p.expect(`document.querySelector("#links-none").innerText`, "None known.")

	p.goTo(base + "/?view=chains")
	p.await(shown)
	follow("Chain & Co", "Chain & Co", "Market cap", "$769.00\u00a0B", "Share of all chains", "25.86%", "Volume 24 h",
		"$12.35\u00a0M", "Coins", "10")
	// The page lists the coins of the chain. The URL contains their order and page.
	coins := strings.Join(slices.Concat(assetNames(0, 4), assetNames(5, 10), assetNames(4, 5)), "|")
	p.await(shown + ` && ` + names + `.join("|") === ` + quote(coins))
	p.shoot("chain")
	p.eval(click("#orders a:nth-child(3)"))
	p.await(shown + ` && location.search === "?chain=1&sort=percent_change.24h%3Aasc" && ` +
		names + `[0] === ` + quote(assetName(9)) + ` && document.querySelector("#orders [aria-current]").textContent === "Losers" && document.querySelector("th[aria-sort=ascending]").textContent === "24 h"`)
	p.checkAxe("losers")
	p.goTo(base + "/?category=1&sort=price:desc&page=2")
	p.await(shown + ` && ` + where + ` === "Page 2 of 2, 30 rows" && ` + names + `[0] === ` + quote(assetName(20)))
	p.eval(click("#previous"))
	p.await(shown + ` && location.search === "?category=1&sort=price%3Adesc" && ` +
		where + ` === "Page 1 of 2, 30 rows"`)
	p.goTo(base + "/?chain=1")
	p.await(shown)
	follow(hostile[2].name, hostile[2].name+" ("+hostile[2].symbol+")", "Rank", "3")
	p.expect(groups, "<i>Category</i> category|Chain & Co chain")
	follow("<i>Cat", "<i>Category</i>", "Market cap")
	for _, title := range []string{hostile[2].name + " (" + hostile[2].symbol + ")", "Chain & Co"} {
		p.eval(`history.back()`)
		p.await(detailShown + ` && document.title === ` + quote(title+" · Market board"))
	}
	p.goTo(base + "/?exchange=99")
	p.await(detailShown + ` && document.querySelector("#detail-name").textContent === "No exchange is listed at this address."`)
	p.eval(click("#back"))
	p.await(shown + ` && location.search === "?view=exchanges"`)
	p.checkStayed(base)
}

// TestBoardLogos allows logos from one host, and checks that the board loads none from other hosts and
// shows monograms instead of missing logos.
func TestBoardLogos(t *testing.T) {
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/there.svg" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><circle cx="1" cy="1" r="1" fill="orange"/></svg>`)
	}))
	defer images.Close()
	store := memstore.New()
	at := mark()
	teststore.PublishAll(t, store, func(at time.Time) map[string][]map[string]any {
		rows := board(at, at)
		rows["assets"][0]["logo"] = images.URL + "/there.svg"
		rows["assets"][1]["logo"] = images.URL + "/away.svg"
		return rows
	}, at)
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true, BoardLogos: []string{images.URL}})
	openapitest.Await(t, base, "")
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	// A logo that could not be loaded is not requested again.
	p.await(shown + ` && document.querySelectorAll(".mark.logo").length === 1 && document.querySelectorAll(".mark img").length === 1`)
	p.expect(`[...document.querySelectorAll("#table .mark")].slice(0, 3).map((mark) => mark.textContent + mark.children.length).join()`, "B1,A0,Ö0")
	p.checkAxe("logos")
	p.shoot("board-logos")
	for _, url := range []string{"/there.svg", "/away.svg"} {
		if !p.asked(images.URL + url) {
			t.Errorf("%s was not asked for", url)
		}
	}
	if p.asked("evil.example") {
		t.Error("a logo of another host was asked for")
	}
}

// TestBoardTime looks at the board before the first snapshot, with an old snapshot, when a newer snapshot
// is published, with and without events, and when the service cannot be reached.
func TestBoardTime(t *testing.T) {
	store := memstore.New()
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	p.await(problem + ` === "There is no snapshot yet. Try again"`)
	p.shoot("board-none")
	p.checkAxe("no snapshot")

	old := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	publish(t, store, old)
	p.await(shown + ` && ` + problem + ` === ""`)
	p.expect(`document.querySelector("#age").className`, "stale")
	p.expect(`/^Snapshot of 2026-01-02 03:00 UTC, \d+ days ago, stale$/.test(document.querySelector("#age").textContent) ? "" : document.querySelector("#age").textContent`, "")
	p.shoot("board-stale")

	age := func(at time.Time) string {
		return `document.querySelector("#age").textContent.startsWith(` +
			quote("Snapshot of "+at.Format("2006-01-02 15:04 UTC")) + `)`
	}

	// Without events, the page offers a newer snapshot but does not change by itself.
	p.block("*/events")
	p.call("Page.reload", nil)
	p.await(`document.readyState === "complete" && ` + shown)
	at := mark()
	before, between := at.Add(-20*time.Minute), at.Add(-10*time.Minute)
	publish(t, store, before)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if r, _ := get(t, "GET", base+"/openapi/v1/global"); r.Header.Get("X-Snapshot-Time") == before.Format(
			time.RFC3339) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the edge does not move to the newer snapshot")
		}
	}
	p.eval(`look()`)
	p.expect(problem, "There is a newer snapshot. Show it")
	p.shoot("board-newer")
	p.checkAxe("newer")
	p.expect(`document.querySelector("#age").className`, "stale amber")
	p.eval(click("#problem button"))
	p.await(shown + ` && ` + age(before) + ` && ` + problem + ` === ""`)

	// With events, the board shows a newer snapshot by itself, and the reader stays on the same page.
	p.block()
	p.call("Page.reload", nil)
	p.await(`document.readyState === "complete" && ` + shown + ` && hearing`)
	p.eval(click("#next"))
	p.await(shown + ` && ` + where + ` === "Page 2 of 3, 45 rows"`)
	p.eval(`document.querySelector("#table tbody a").focus()`)
	publish(t, store, between)
	p.await(age(between))
	p.expect(where, "Page 2 of 3, 45 rows")
	p.expect(`document.activeElement.getAttribute("href")`, "?"+url.Values{"asset": {assetSlug(21)}}.Encode())
	if !p.asked("/at/" + between.Format("20060102T150405Z") + "/openapi/v1/markets?") {
		t.Error("what is new was not asked for below its time")
	}
	// The selected point of a chart also stays the same.
	p.key(kb.Enter)
	p.await(assetShown)
	p.eval(`document.querySelector("#plot").focus()`)
	p.key(kb.Home)
	publish(t, store, at)
	p.await(age(at) + ` && document.querySelector("#points tbody td").textContent === ` +
		quote(at.Format("2006-01-02 15:04 UTC")))
	p.expect(`document.querySelector("#point p").textContent.replace(/.*? /, "") + " " + document.activeElement.id`,
		before.Format("2006-01-02 15:04 UTC")+" plot")
	p.eval(`history.back()`)
	p.await(shown + ` && document.querySelector("#detail").hidden`)

	offline := map[string]any{"offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
	p.call("Network.emulateNetworkConditions", offline)
	p.eval(click("#next"))
	p.await(problem + ` === "The service cannot be reached. Try again"`)
	p.await(`document.querySelector("#age").className === "red"`)
	// The error is visible wherever the reader has scrolled, and the content stays.
	p.expect(`((r) => (r.top >= 0 && r.bottom <= innerHeight ? "in sight" : JSON.stringify(r)))(document.querySelector("#problem").getBoundingClientRect())`, "in sight")
	p.expect(where, "Page 2 of 3, 45 rows")
	p.shoot("board-error")
	p.checkAxe("error")
	offline["offline"] = false
	p.call("Network.emulateNetworkConditions", offline)
	p.eval(click("#problem button"))
	p.await(shown + ` && ` + where + ` === "Page 3 of 3, 45 rows" && ` + problem + ` === ""`)
	p.checkStayed(base, "404 (Not Found)", "ERR_INTERNET_DISCONNECTED", "ERR_BLOCKED_BY_CLIENT")
}

// TestBoardNews checks that a page that shows a newer snapshot tints changed cells, with a colour for the
// direction of prices, and states the number of changed prices. Readers who prefer reduced motion see no
// tint.
func TestBoardNews(t *testing.T) {
	at := mark()
	store := memstore.New()
	market := func(when time.Time) map[string][]map[string]any {
		rows := board(at, at)
		if when.Equal(at) {
			rows["quotes"][1]["price"], rows["quotes"][2]["price"] = "2111.5", "1997.001"
			rows["quotes"][6]["volume"] = "42"
			rows["quotes"][7]["price"] = "1993.50"  // the same number
			rows["quotes"][8]["price"] = "1992.501" // another number that looks the same
		}
		return rows
	}
	teststore.PublishAll(t, store, market, at.Add(-10*time.Minute))
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
	openapitest.Await(t, base, "")
	b := startBrowser(t)
	pages := map[string]*page{"flash": b.open(t, desktop), "none": b.open(t, desktop)}
	pages["none"].emulate("", "prefers-reduced-motion", "reduce")
	const cells = `[...document.querySelectorAll("#table tbody td:not(.who, .lines)")]`
	const said = `((cell) => cell.textContent + (cell.matches(".price") ? cell.querySelector("[title]").title : ""))`
	for _, p := range pages {
		p.goTo(base + "/")
		p.await(shown + ` && hearing`)
		p.eval(`globalThis.before = ` + cells + `.map(` + said + `)`)
	}
	teststore.PublishAll(t, store, market, at)
	for animation, p := range pages {
		p.await(`document.querySelector("#age").textContent.endsWith(", 3 of 20 prices changed")`)
		p.expect(`document.querySelector("#news").textContent`, "New snapshot: 3 of 20 prices changed")
		for _, wrong := range p.texts(cells + `.flatMap((cell, i) => {
			const want = ` + said + `(cell) === before[i] ? "none" : ` + quote(animation) + `, is = getComputedStyle(cell).animationName;
			return is === want ? [] : [before[i] + " > " + cell.textContent + ": " + is];
		})`) {
			t.Errorf("%s: %s", animation, wrong)
		}
		p.expect(cells+`.filter((cell) => cell.matches(".fresh.price")).map((cell) => cell.textContent + " " + cell.className).join("|")`,
			"$2,111.50 price fresh rose|$1,997.00 price fresh fell|$1,992.50 price fresh rose")
		p.checkStayed(base)
	}
}

// TestBoardTheme switches from the system's theme to the other one and back. The browser must keep the
// choice, other tabs must adopt it, and printing must ignore it.
func TestBoardTheme(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	other := p.tab()
	other.goTo(base + "/docs")
	other.goTo(base + "/?asset=" + url.QueryEscape(assetSlug(5)))
	other.await(assetShown)
	const dark = `document.documentElement.dataset.theme + document.querySelector("#theme").ariaPressed + JSON.stringify(localStorage) === `
	p.press("#theme", 0.5, 0.5, 1)
	for _, p := range []*page{p, other} {
		p.await(dark + quote(`darktrue{"market-board-theme":"dark"}`))
		p.checkDark(true)
		p.checkContrast()
	}
	p.call("Page.reload", nil)
	p.await(`document.readyState === "complete" && ` + shown)
	p.checkDark(true)
	p.checkAxe("dark")

	// A printed page leaves out controls.
	for _, p := range []*page{p, other} {
		p.emulate("print", "prefers-color-scheme", "light")
		p.checkDark(false)
		p.checkFits()
		if left := p.texts(`[...document.querySelectorAll("button:not(th *), input, select, summary, nav:not(#windows) a")].filter((one) => one.checkVisibility()).map((one) => one.outerHTML)`); left != nil {
			t.Errorf("printed: %q", left)
		}
		p.emulate("", "prefers-color-scheme", "light")
	}
	p.expect(names+`.length + document.querySelector("#table tbody td.price").textContent`, "20$2,000.50")

	p.press("#theme", 0.5, 0.5, 1)
	for _, p := range []*page{p, other} {
		p.await(dark + quote("lightfalse{}"))
		p.emulate("", "prefers-color-scheme", "dark") // the system's theme, not the reader's choice
		p.await(dark + quote("darktrue{}"))
		p.checkDark(true)
	}
	p.checkStayed(base)
}

// TestBoardMouse opens an asset by clicking its row, zooms its chart in and out, and downloads its points.
func TestBoardMouse(t *testing.T) {
	at := mark()
	base, _ := startBoard(t, at, true, hourly(at, 24)...)
	b := startBrowser(t)
	p := b.open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	// The middle button opens another tab. A click does not open the asset if text is selected, or if it
	// hits a star.
	p.eval(`globalThis.asked = []; open = (...what) => asked.push(what.join(" "))`)
	const row = "#table tbody tr:nth-child(6) "
	const price = `document.querySelector("` + row + `.price")`
	to := "?" + url.Values{"asset": {assetSlug(6)}}.Encode()
	p.eval(price + `.dispatchEvent(new MouseEvent("auxclick", { button: 1, bubbles: true }))`)
	p.expect(`asked.join()`, base+"/"+to+" _blank noopener")
	p.eval(`getSelection().selectAllChildren(` + price + `), ` + price + `.click()`)
	p.expect(`location.search`, "")
	p.eval(`getSelection().removeAllRanges()`)
	p.press(row+".star", 0.5, 0.5, 1)
	p.expect(`document.querySelector("`+row+`.star").ariaPressed + location.search`, "true")
	p.press(row+".price", 0.1, 0.1, 1)
	p.await(assetShown + ` && location.search === ` + quote(to))

	p.eval(click("#windows a"))
	p.await(assetShown + ` && location.search.endsWith("window=24h")`)
	const view = `charted.chart.view.map((time) => Math.round((24 * (time - charted.chart.whole[0])) / day)).join() + document.querySelector("#whole").hidden`
	p.press("#plot .u-over", 0.25, 0.75, 1)
	p.await(view + ` === "6,18false"`)
	p.press("#plot .u-over", 0.5, 0.5, 1)
	p.press("#plot .u-over", 0.5, 0.5, 2)
	p.await(view + ` === "0,24true"`)

	got := p.download("#csv", "prices-slug-b-07-24h-10m.csv")
	want := p.eval(`fetch("/openapi/v1/history?id=7&window=24h").then((r) => r.json()).then(({ result }) => ["time,price", ...result.items[0].points.map((point) => point.join()), ""].join("\n"))`)
	if got != want || strings.Count(got, "\n") != 26 {
		t.Errorf("downloaded: %q, want %q", got, want)
	}
	p.checkStayed(base)
}

// TestNumbers checks that decimals of any length are rounded exactly, half away from zero, and checks the
// texts of charts.
func TestNumbers(t *testing.T) {
	base, _ := startBoard(t, mark(), true)
	p := startBrowser(t).open(t, desktop)
	p.goTo(base + "/")
	p.await(shown)
	p.eval(`
		const at = (text) => seconds(text + ":00Z");
		globalThis.ticks = (from, to, most) => (({ times, step }) => times.map((time) => timeLabel(time, step)).join("|"))(timeTicks(at(from), at(to), most));
		globalThis.begins = (time, window) => since([[time + ":00Z", "1"]], windows[window], at("2025-11-22T12:20"));
		globalThis.labels = (from, to, most) => (({ amounts, step }) => amountLabels(amounts, step).join("|").replaceAll("\u00a0", " "))(amountTicks(from, to, most));`)
	for expression, want := range map[string]string{
		`price("0")`:                      "$0.00",
		`price("0.00000012345")`:          "$0.0₆1235",
		`price("0.000000000000000001")`:   "$0.0₁₇1000",
		`price("0.99995")`:                "$1.00",
		`price("0.5")`:                    "$0.5000",
		`price("1")`:                      "$1.00",
		`price("1.005")`:                  "$1.01",
		`grouped("1234567.1234567")`:      "1,234,567.1234567",
		`price("9007199254740993.125")`:   "$9.01\u00a0×10¹⁵",
		`money("0")`:                      "$0.00",
		`money("999.99")`:                 "$999.99",
		`money("1000")`:                   "$1.00\u00a0K",
		`money("1234567.875")`:            "$1.23\u00a0M",
		`money("999999999999.5")`:         "$1.00\u00a0T",
		`money("999999999")`:              "$1.00\u00a0B",
		`money("999994999")`:              "$999.99\u00a0M",
		`money("995")`:                    "$995.00",
		`money("999.995")`:                "$1.00\u00a0K",
		`money("1293229703792.125")`:      "$1.29\u00a0T",
		`money("9999999999999999999999")`: "$10.00\u00a0×10²¹",
		`money("9".repeat(28))`:           "$10.00\u00a0×10²⁷",
		`price("1234567890.5")`:           "$1.23\u00a0B",
		`price("0.00001234")`:             "$0.0₄1234",
		`price("0.0001234")`:              "$0.0001234",
		`change("12345678.9").text`:       "+12.35\u00a0M%",
		`share("1")`:                      "100.00%",
		`share("0")`:                      "0.00%",
		`share("0.123456789012")`:         "12.35%",
		`share("0.00005")`:                "0.01%",
		`change("12.345").text`:           "+12.35%",
		`change("-12.345").text`:          "\u221212.35%",
		`change("-0.001").text`:           "0.00%",
		`change("-0.005").text`:           "\u22120.01%",
		`change("123456.7").text`:         "+123,456.70%",
		// Charts: where lines are broken, and how keys move from point to point even if many points share a
		// pixel.
		`JSON.stringify(gaps({ data: [[0, 3600, 7000, 20000]], valToPos: (x) => x }, 3600, 0, 3))`: "[[7000,20000]]",
		`JSON.stringify(alone([0, 9000, 10000, 20000], 3600))`:                                     "[0,3]",

		`strokes([0, 1, 2, 6].map((h, i) => [new Date(h * 36e5).toISOString(), String(i)]), 3600, 0, 36000, 100, 30)`: "M0.0,30.0L10.0,20.0L20.0,10.0M60.0,0.0h0",
		`strokes([0, 1, 2].map((h) => [new Date(h * 36e5).toISOString(), "1.000" + h]), 3600, 0, 7200, 100, 30)`:      "M0.0,15.3L50.0,15.0L100.0,14.7",

		`strokes([["1970-01-01T00:00:00Z", "5"]], 3600, 0, 7200, 100, 30)`: "M0.0,15.0h0",
		`(async () => {
			const box = document.body.appendChild(document.createElement("div"));
			const told = [], points = Array.from({ length: 5000 }, (_, i) => [new Date(i * 6e5).toISOString(), String(i)]);
			const chart = new Chart(box, points, { step: 600, length: 4999 * 600 }, 4999 * 600, "up", (i) => told.push(i), (less) => told.push(less));
			await new Promise(requestAnimationFrame);
			chart.at(100);
			for (const key of ["ArrowLeft", "ArrowLeft", "PageUp", "+", "Home", "Escape"]) chart.key(new KeyboardEvent("keydown", { key }));
			return told.join();
		})()`: "100,99,98,108,true,0,false",
		// Ticks and their labels.
		`ticks("2025-11-21T12:20", "2025-11-22T12:20", 8)`:  "15:00|18:00|21:00|22 Nov|03:00|06:00|09:00|12:00",
		`ticks("2025-11-22T11:05", "2025-11-22T12:20", 8)`:  "11:10|11:20|11:30|11:40|11:50|12:00|12:10|12:20",
		`ticks("2025-11-15T12:20", "2025-11-22T12:20", 8)`:  "16 Nov|17 Nov|18 Nov|19 Nov|20 Nov|21 Nov|22 Nov",
		`ticks("2025-10-23T12:20", "2025-11-22T12:20", 8)`:  "27 Oct|3 Nov|10 Nov|17 Nov",
		`ticks("2024-11-22T12:20", "2025-11-22T12:20", 14)`: "Dec|2025|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov",
		`ticks("2024-11-22T12:20", "2025-11-22T12:20", 5)`:  "2025|Apr|Jul|Oct",

		`amountTicks(93.1, 101.9, 6).amounts.join()`: "94,96,98,100",
		`labels(93.1, 101.9, 6)`:                     "$94|$96|$98|$100",
		`labels(87, 94, 3)`:                          "$90",
		`labels(90901, 91601, 4)`:                    "$91,000|$91,200|$91,400|$91,600",
		`labels(0.98, 1.03, 4)`:                      "$0.98|$1.00|$1.02",
		`labels(0.00000003, 0.00000028, 5)`:          "$0.0₆1|$0.0₆2",
		`labels(1150000, 1350000, 4)`:                "$1.15 M|$1.20 M|$1.25 M|$1.30 M|$1.35 M",
		`labels(1200100, 1200900, 4)`:                "$1,200,200|$1,200,400|$1,200,600|$1,200,800",
		`labels(1.1e22, 1.4e22, 3)`:                  "$11 ×10²¹|$12 ×10²¹|$13 ×10²¹|$14 ×10²¹",

		`begins("2025-11-12T12:00", "30d")`:                                  "since 12 Nov",
		`begins("2025-11-22T03:10", "24h")`:                                  "since 03:10",
		`begins("2025-10-23T16:00", "30d")`:                                  "",
		`margins(1, 1).join() + margins(0, 0).join() + margins(null).join()`: "0.95,1.050,1,",
		`csv([["2025-11-22T12:20:00Z", "1.50"]])`:                            "time,price\n2025-11-22T12:20:00Z,1.50\n",
	} {
		p.expect(expression, want)
	}
}

// TestKnownFacts checks that the board and the reference show the snapshot's notice, and that the page of
// an asset shows the supplies, contracts and other currencies from the CoinGecko-compatible API.
func TestKnownFacts(t *testing.T) {
	store := memstore.New()
	teststore.Simulate(t, store, "?assets=100&seed=1", mark())
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true, Coins: true})
	openapitest.Await(t, base, "")
	p := startBrowser(t).open(t, desktop)
	const notice = "Simulated market: these prices are invented"
	p.goTo(base + "/docs")
	p.await(`document.querySelector("#notice").checkVisibility()`)
	p.expect(`document.querySelector("#notice").innerText`, notice)
	p.expect(`document.querySelector("#top a").href`, base+"/")
	p.eval(`[...document.querySelectorAll("#top a")].at(-1).click()`)
	p.await(`document.querySelector("#reference").innerText.includes("/simple/price")`)
	p.expect(`location.href`, base+"/docs?coingecko")
	p.checkStayed(base)
	p.shoot("docs-coingecko")
	p.goTo(base + "/")
	p.await(shown)
	p.expect(`document.querySelector("#notice").innerText`, notice)
	p.goTo(base + "/?asset=tether")
	p.await(assetShown + ` && !document.querySelector("#contracts").parentElement.hidden`)
	p.expect(`document.querySelector("#contracts").innerText.split(/\s+/).join("|")`,
		"ethereum|0xdac17f958d2ee523a2206206994597c13d831ec7|Copy|tron|TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t|Copy")
	facts := fmt.Sprint(p.eval(`document.querySelector("#facts").innerText.split(/\s*\n\s*/).join("|")`))
	for _, want := range []string{"Fully diluted|$166", "Circulating|162.00\u00a0B\u00a0USDT",
		"Total supply|166.50\u00a0B\u00a0USDT"} {
		if !strings.Contains(facts, want) {
			t.Errorf("the facts %q lack %q", facts, want)
		}
	}
	if got := fmt.Sprint(p.eval(`document.querySelector("#currencies").innerText`)); !strings.Contains(got, "EUR 0.9") {
		t.Errorf("currencies: %q", got)
	}
	p.checkFits()
	p.checkAxe("contracts")
	p.goTo(base + "/?asset=bitcoin") // has no contracts
	p.await(assetShown)
	p.expect(`String(document.querySelector("#contracts").parentElement.hidden)`, "true")
}
