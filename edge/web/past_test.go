package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
	"github.com/chromedp/chromedp/kb"
)

// apiCSV is a JavaScript function that sends queries to the API and returns a table of the elements of the
// item's member called rows. It does not change the numbers.
const apiCSV = `(async (head, rows, queries) => {
	const found = [];
	for (const query of queries) {
		const text = await (await fetch("/openapi/v1/" + query)).text();
		const list = text.slice(text.indexOf('"' + rows + '":[') + rows.length + 4);
		found.push(...list.slice(0, list.indexOf("]]") + 1).match(/\[[^\]]*\]/g));
	}
	return [head, ...found.map((row) => row.slice(1, -1).replaceAll('"', "").replaceAll("null", "")), ""].join("\n");
})`

// TestBoardPast checks what the page of an asset shows about the past: candles, the drawings below the
// chart, the window max, and the price at a date. Some market caps and volumes are unknown.
func TestBoardPast(t *testing.T) {
	at := mark()
	const tail = "0000000000000001" // gives a price more digits than a double can hold
	store := memstore.New()
	hour, long := at.Truncate(time.Hour), at.Truncate(24*time.Hour).AddDate(0, 0, -1100)
	times := []time.Time{long.Add(9 * time.Hour), long.Add(34 * time.Hour), at.Add(-20 * 24 * time.Hour),
		hour.Add(-3 * time.Hour), hour.Add(-170 * time.Minute), hour.Add(-140 * time.Minute),
		hour.Add(-130 * time.Minute), hour.Add(-2 * time.Hour), at}
	teststore.PublishAll(t, store, func(when time.Time) map[string][]map[string]any {
		rows := board(when, at)
		q := rows["quotes"][5]
		for i, price := range []string{"500.25", "0.00000001234", "700",
			"1900." + tail, "1950.5", "1890.75", "1910", "1920"} {
			if when.Equal(times[i]) {
				q["price"] = price
			}
		}
		if when.Before(times[3]) {
			delete(q, "market_cap")
			delete(q, "volume")
		}
		return rows
	}, times...)
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
	openapitest.Await(t, base, "")
	b := startBrowser(t)
	for name, v := range views {
		t.Run("view"+name, func(t *testing.T) {
			p := b.open(t, v)
			p.goTo(base + "/?asset=" + url.QueryEscape(assetSlug(5)))
			p.await(assetShown)
			p.checkCandles(hour, tail)
			p.checkMax(times[0])
			p.checkDated(times)
			p.checkStayed(base)
		})
	}
}

const (
	candleHead = "time,open,high,low,close,market_cap,volume"
	chartStyle = `document.querySelector("#styles [aria-current]").textContent`
	told       = `document.querySelector("#point").innerText.split(/\s*\n\s*/).join("|")`
)

// checkCandles switches to the candles of a week. Of the two completed hours, the first has four different
// prices, and the second has one.
func (p *page) checkCandles(hour time.Time, tail string) {
	p.t.Helper()
	p.expect(chartStyle, "Line")
	p.eval(`document.querySelector("#styles a:last-child").focus()`)
	p.key(kb.Enter)
	p.await(assetShown + ` && location.search.endsWith("&chart=candles") && ` + chartStyle + ` === "Candles"`)
	p.expect(`document.activeElement.textContent`, "Candles")
	first := hour.Add(-3 * time.Hour)
	p.eval(`document.querySelector("#plot").focus()`)
	p.key(kb.Home)
	p.expect(told, first.Format("2006-01-02 15:04 UTC")+"|Open|$1,900."+tail+
		"|High|$1,950.5|Low|$1,890.75|Close|$1,910|Market cap|$42.50\u00a0B|Volume 24 h|$1.23\u00a0M")
	p.expect(`document.querySelector("#plot").ariaValueText`, first.Format("2006-01-02 15:04 UTC")+
		", open $1,900."+tail+", high $1,950.5, low $1,890.75, close $1,910, market cap $42.50\u00a0B, volume 24 h $1.23\u00a0M")
	p.key(kb.ArrowRight)
	p.expect(told, first.Add(time.Hour).Format("2006-01-02 15:04 UTC")+
		"|Open|$1,920|High|$1,920|Low|$1,920|Close|$1,920|Market cap|$42.50\u00a0B|Volume 24 h|$1.23\u00a0M")
	p.point("#plot .u-over", 0)
	p.await(told + `.startsWith(` + quote(first.Format("2006-01-02 15:04 UTC")) + `)`)
	p.expect(`[...document.querySelectorAll("#below figure")].map((one) => one.innerText.trim() + one.querySelectorAll("canvas").length).join("|")`,
		"Market cap $42.50\u00a0B1|Volume 24 h $1.23\u00a0M1")
	p.checkFits()
	p.checkAxe("candles")
	p.eval(click("#points-of summary"))
	p.expect(`document.querySelector("#points").rows[2].innerText.trim().split(/\s*\t\s*/).join("|")`,
		first.Format("2006-01-02 15:04 UTC")+"|$1,900."+tail+"|$1,950.5|$1,890.75|$1,910|$42.50\u00a0B|$1.23\u00a0M")
	p.checkFits()
	p.checkAxe("candles as a table")
	p.checkCSV("candles-slug-b-06-7d-1h.csv", candleHead, "candles", 2, "candles?id=6&interval=1h")
	// Other windows keep the style. Windows of more than a week have daily candles.
	p.eval(click("#windows a:nth-child(3)"))
	p.await(assetShown + ` && location.search.endsWith("&window=30d&chart=candles") && ` + chartStyle + ` === "Candles"`)
}

// checkMax opens the window max, as candles and as a line.
func (p *page) checkMax(oldest time.Time) {
	p.t.Helper()
	p.eval(click("#windows a:last-child"))
	p.await(assetShown + ` && location.search.endsWith("&window=max&chart=candles")`)
	days := int(p.eval(`charted.chart.points.length`).(float64))
	// There are more candles than one request may return.
	day, next := oldest.Truncate(24*time.Hour), oldest.Truncate(24*time.Hour).AddDate(0, 0, 1000)
	p.checkCSV("candles-slug-b-06-max-1d.csv", candleHead, "candles", days,
		fmt.Sprintf("candles?id=6&interval=1d&from=%d&to=%d", day.Unix(), next.Unix()-1),
		fmt.Sprintf("candles?id=6&interval=1d&from=%d", next.Unix()))
	p.eval(click("#styles a"))
	p.await(assetShown + ` && location.search.endsWith("&window=max") && ` + chartStyle + ` === "Line"`)
	p.eval(`document.querySelector("#plot").focus()`)
	p.key(kb.Home)
	// The market cap and volume of this point are unknown.
	p.expect(`document.querySelector("#point").textContent`, "$500.25 "+oldest.Format("2006-01-02 15:04 UTC"))
	p.expect(`document.querySelector("#windows [aria-current]").textContent`, "max")
	points := int(p.eval(`charted.chart.points.length`).(float64))
	p.checkCSV("prices-slug-b-06-max-1d.csv", "time,price", "points", points, "history?id=6&window=max")
	p.checkFits()
	p.checkAxe("max")
}

// checkCSV downloads the chart's data, and compares it with answers of the API.
func (p *page) checkCSV(name, head, rows string, lines int, queries ...string) {
	p.t.Helper()
	got := p.download("#csv", name)
	want := p.eval(fmt.Sprintf(`%s(%s, %s, %s.split(" "))`, apiCSV, quote(head), quote(rows),
		quote(strings.Join(queries, " "))))
	if got != want || strings.Count(got, "\n") != lines+1 {
		p.t.Errorf("%s: %q, want %q, %d rows", name, got, want, lines)
	}
}

// checkDated requests the price at several dates with the keyboard.
func (p *page) checkDated(times []time.Time) {
	p.t.Helper()
	const says = `document.querySelector("#dated-says").innerText.split(/\s*\n\s*/).join("|")`
	askFor := func(date, clock string) {
		p.eval(fmt.Sprintf(`$("dated-date").value = %s; $("dated-time").value = %s; $("dated-says").replaceChildren()`,
			quote(date), quote(clock)))
		p.eval(`document.querySelector("#dated button").focus()`)
		p.key(kb.Enter)
		p.await(`document.querySelector("#dated-says").innerText`)
	}
	when := times[4].Add(9 * time.Minute)
	askFor(when.Format(time.DateOnly), when.Format("15:04"))
	p.expect(says, "Price|$1,950.5|Market cap|$42.50\u00a0B|Volume 24 h|$1.23\u00a0M|Snapshot|"+
		times[4].Format("2006-01-02 15:04 UTC"))
	p.checkFits()
	p.checkAxe("price at a date")
	// Without a time, the answer is the price at midnight, from the last snapshot before it that is not too
	// old.
	day := times[0].Truncate(24*time.Hour).AddDate(0, 0, 1)
	askFor(day.Format(time.DateOnly), "")
	want := "Price|$500.25|Market cap|–|Volume 24 h|–|Snapshot|" + times[0].Format("2006-01-02 15:04 UTC")
	p.expect(says, want)
	askFor("2001-02-03", "04:05")
	p.expect(says, "No price is available for 2001-02-03 04:05 UTC.")
	p.block("*/prices?*")
	askFor("2001-02-03", "04:05")
	p.expect(says, "The price could not be loaded: The service cannot be reached.")
	p.block()
	// The form rejects an empty date and a date in the future.
	for _, date := range []string{"", time.Now().AddDate(0, 0, 3).Format(time.DateOnly)} {
		p.eval(`$("dated-date").value = ` + quote(date))
		p.expect(`String($("dated").checkValidity())`, "false")
	}
}
