package gen

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
)

// feed generates the feed folder of the market.
func (m *market) feed(d draw, at time.Time) model.Files {
	stamp := at.Format(time.RFC3339)
	switch { // The builder rounds down to ten minutes.
	case d.chance(10):
		stamp = at.Add(9*time.Minute + 59*time.Second).Format(time.RFC3339)
	case d.chance(10):
		stamp = at.In(time.FixedZone("", 2*60*60)).Format(time.RFC3339)
	}
	m.crowd.move(d)
	files := model.Files{
		"feed.json": d.row(
			[]member{{"format", "1"}, {"database", d.literal(m.database)}, {"time", d.literal(stamp)}}),
		"assets.ndjson": m.assetFile(d),
	}
	optional := func(name, text string) {
		if text != "" || d.chance(50) {
			files[name] = text
		}
	}
	optional("quotes.ndjson", m.quoteFile(d))
	optional("exchanges.ndjson", m.exchangeFile(d))
	optional("categories.ndjson", m.groupFile(d, "categories"))
	optional("chains.ndjson", m.groupFile(d, "chains"))
	optional("rates.ndjson", m.rateFile(d))
	return files
}

// lines generates the lines of a file: the given rows, some invalid ones among them, and the rows
// of the crowd at the end. Each row is a list of members.
func (m *market) lines(d draw, rows [][]member, crowd []string) string {
	var lines []string
	for _, r := range rows {
		if m.bad > 0 && d.chance(m.bad) {
			lines = append(lines, d.row(d.spoil(r, rows))) // instead of a valid one
			if d.chance(50) {
				continue
			}
		}
		lines = append(lines, d.row(r))
	}
	if m.bad > 0 {
		for range d.upTo(2) {
			lines = d.insert(lines, pick(d, notRows))
		}
		if len(rows) > 0 && d.chance(30) {
			lines = d.insert(lines, d.row(pick(d, rows))) // a repeated row
		}
		if len(rows) > 0 && d.chance(20) {
			lines = d.insert(lines, d.row(d.spoil(pick(d, rows), rows)))
		}
		if len(rows) > 0 && d.chance(1) {
			long := append(
				rows[0][:len(rows[0]):len(rows[0])], member{"unknown", `"` + strings.Repeat("x", 1<<20) + `"`})
			lines = d.insert(lines, d.row(long))
		}
	}
	return d.file(append(lines, crowd...))
}

// spoil gives one member of a row the value that another row has, such as an id or slug that is
// already used, or an odd value. The model decides whether the field accepts it.
func (d draw) spoil(r []member, rows [][]member) []member {
	m := pick(d, pick(d, rows))
	switch {
	case d.chance(30):
		return with(r, m.name, m.value)
	case m.value[0] == '{' && d.chance(70):
		inner := pick(d, []string{"chat", "maker", "taker", "volume_24h", "markets_count", "coins_count", "data_time"})
		return with(r, m.name, fmt.Sprintf(`{%q:%s}`, inner, pick(d, odd)))
	}
	return with(r, m.name, pick(d, odd))
}

func (m *market) assetFile(d draw) string {
	var rows [][]member
	for _, a := range m.here["assets"] {
		r := []member{{"key", d.literal(a.key)}, {"name", d.literal(a.name)}, {"symbol", d.literal(a.symbol)},
			{"slug", d.literal(a.slug)}}
		if a.id != 0 {
			r = append(r, member{"id", integer(a.id)})
		}
		r = d.optional(r, "logo", d.literal(pick(d, []string{"", "https://example.com/x?a=1&b=<2>", "\u2028"})), `""`)
		r = d.optional(r, "explorers", d.list([]string{"https://explorer.example/a\"b", "", "ä"}), "[]")
		r = d.optional(r, "website", d.literal(pick(d, []string{"", "https://example.com/", "\n"})), `""`)
		r = d.optional(r, "whitepaper", d.literal(pick(d, []string{"", "https://example.com/paper.pdf"})), `""`)
		r = d.optional(r, "active", fmt.Sprint(!a.inactive), "true")
		r = d.optional(r, "platforms", d.object(a.platforms), "{}")
		rows = append(rows, r)
	}
	return m.lines(d, rows, m.crowd.rows["assets"])
}

// list generates an array of some of the texts.
func (d draw) list(texts []string) string {
	var literals []string
	for range d.upTo(3) {
		literals = append(literals, d.literal(pick(d, texts)))
	}
	return "[" + strings.Join(literals, pick(d, []string{",", " , "})) + "]"
}

func (m *market) quoteFile(d draw) string {
	var rows [][]member
	for _, a := range m.here["assets"] {
		if a.price == "" {
			continue
		}
		r := []member{{"key", d.literal(a.key)}, {"price", a.price}}
		r = d.optional(r, "market_cap", a.cap, "null")
		r = d.optional(r, "volume", a.volume, `"0"`)
		for i, name := range []string{"circulating_supply", "total_supply", "max_supply"} {
			r = d.optional(r, name, cmp.Or(a.supplies[i], "null"), "null")
		}
		rows = append(rows, r)
	}
	return m.lines(d, rows, m.crowd.rows["quotes"])
}

func (m *market) exchangeFile(d draw) string {
	var rows [][]member
	for _, e := range m.here["exchanges"] {
		r := []member{{"key", d.literal(e.key)}, {"name", d.literal(e.name)}, {"slug", d.literal(e.slug)}}
		if e.id != 0 {
			r = append(r, member{"id", integer(e.id)})
		}
		r = d.optional(r, "logo", d.literal(pick(d, []string{"", "https://example.com/x"})), `""`)
		if d.chance(50) {
			links := []member{}
			for _, kind := range []string{"website", "twitter", "telegram", "reddit", "facebook", "chat"} {
				links = d.optional(links, kind, d.literal(pick(d, []string{"", "https://example.com/&"})), `""`)
			}
			r = append(r, member{"links", d.row(append(links, member{"forum", `["x"]`}))})
		}
		if d.chance(70) {
			var fees []member
			fees = d.optional(fees, "maker", d.decimal(fee), "0")
			fees = d.optional(fees, "taker", d.decimal(fee), "0")
			r = append(r, member{"fees", d.object(fees)})
		}
		if !d.chance(30) {
			var market []member
			market = d.optional(market, "volume_24h", pick(d, []string{d.decimal(amount), "null"}), "null")
			market = d.optional(market, "markets_count", pick(d, append([]string{"null"}, counts...)), "null")
			market = d.optional(market, "coins_count", pick(d, append([]string{"null"}, counts...)), "null")
			market = d.optional(market, "data_time", pick(d, []string{d.literal(pick(d, times)), "null"}), "null")
			r = append(r, member{"market", d.object(market)})
		}
		rows = append(rows, r)
	}
	return m.lines(d, rows, m.crowd.rows["exchanges"])
}

// object writes a row, which may be empty.
func (d draw) object(members []member) string {
	if len(members) == 0 {
		return "{}"
	}
	return d.row(members)
}

func (m *market) groupFile(d draw, collection string) string {
	var rows [][]member
	for _, g := range m.here[collection] {
		r := []member{{"key", d.literal(g.key)}, {"name", d.literal(g.name)}, {"slug", d.literal(g.slug)}}
		if g.id != 0 {
			r = append(r, member{"id", integer(g.id)})
		}
		r = d.optional(r, "status", d.literal(g.status), `"active"`)
		var members []string
		for _, key := range g.members {
			members = append(members, d.literal(key))
		}
		r = d.optional(r, "members", "["+strings.Join(members, ",")+"]", "[]")
		if collection == "chains" {
			if d.chance(50) {
				r = append(r, member{"display_name", d.literal(pick(d, []string{"Short", "null", "ß"}))})
			}
			r = d.optional(r, "evm_chain_id", pick(d, append([]string{"null"}, counts...)), "null")
			r = d.optional(r, "native", pick(d, []string{d.literal(g.native), "null"}), "null")
		}
		rows = append(rows, r)
	}
	return m.lines(d, rows, m.crowd.rows[collection])
}
