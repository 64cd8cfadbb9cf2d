package gen

import (
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
)

// feed writes the market's feed folder.
func (m *market) feed(d draw, at time.Time) model.Files {
	stamp := at.Format(time.RFC3339)
	switch { // the builder rounds down to ten minutes
	case d.chance(10):
		stamp = at.Add(9*time.Minute + 59*time.Second).Format(time.RFC3339)
	case d.chance(10):
		stamp = at.In(time.FixedZone("", 2*60*60)).Format(time.RFC3339)
	}
	m.crowd.move(d)
	files := model.Files{
		"feed.json":     d.row([]member{{"format", "1"}, {"database", d.literal(m.database)}, {"time", d.literal(stamp)}}),
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
	return files
}

// lines are the rows of a file with bad ones among them. Each row is a list of
// members; spoil makes bad ones of good ones. The crowd's rows come last.
func (m *market) lines(d draw, rows [][]member, crowd []string, spoil func([]member) []member) string {
	var lines []string
	for _, r := range rows {
		if m.bad > 0 && d.chance(m.bad) {
			lines = append(lines, d.row(spoil(r))) // a bad one in the place of a good one
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
			lines = d.insert(lines, d.row(rows[d.upTo(len(rows)-1)])) // twice
		}
		if len(rows) > 0 && d.chance(20) {
			lines = d.insert(lines, d.row(spoil(rows[d.upTo(len(rows)-1)])))
		}
		if len(rows) > 0 && d.chance(1) {
			long := append(rows[0][:len(rows[0]):len(rows[0])], member{"unknown", `"` + strings.Repeat("x", 1<<20) + `"`})
			lines = d.insert(lines, d.row(long))
		}
	}
	return d.file(append(lines, crowd...))
}

var refusedIDs = []string{"0", "-1", "9007199254740992", "1.5", `"5"`, `""`, "true", "[]", "1e400", "99999999999999999999"}

// spoilText makes a text field bad.
func (d draw) spoilText(r []member, required, other []string) []member {
	if d.chance(60) {
		return with(r, pick(d, required), pick(d, append([]string{"null", `""`}, wrongTypes...)))
	}
	return with(r, pick(d, other), pick(d, wrongTypes))
}

func (m *market) assetFile(d draw) string {
	var rows [][]member
	for _, a := range m.assets {
		r := []member{{"key", d.literal(a.key)}, {"name", d.literal(a.name)}, {"symbol", d.literal(a.symbol)}, {"slug", d.literal(a.slug)}}
		if a.id != 0 {
			r = append(r, member{"id", integer(a.id)})
		}
		r = d.optional(r, "logo", d.literal(pick(d, []string{"", "https://example.com/x?a=1&b=<2>", "\u2028"})), `""`)
		r = d.optional(r, "explorers", d.list([]string{"https://explorer.example/a\"b", "", "ä"}), "[]")
		r = d.optional(r, "website", d.literal(pick(d, []string{"", "https://example.com/", "\n"})), `""`)
		r = d.optional(r, "whitepaper", d.literal(pick(d, []string{"", "https://example.com/paper.pdf"})), `""`)
		r = d.optional(r, "active", fmt.Sprint(!a.inactive), "true")
		rows = append(rows, r)
	}
	return m.lines(d, rows, m.crowd.rows["assets"], func(r []member) []member {
		switch d.upTo(4) {
		case 0:
			return d.spoilText(r, []string{"key", "name", "symbol", "slug"}, []string{"logo", "website", "whitepaper"})
		case 1:
			return with(r, "id", pick(d, refusedIDs))
		case 2:
			return with(r, "id", integer(int64(d.between(1, 300)))) // perhaps of another key
		case 3:
			return with(r, "slug", d.literal(pick(d, m.assets).slug))
		}
		return with(r, pick(d, []string{"explorers", "active"}), pick(d, []string{`"x"`, "5", "{}", "[5]", "[[]]", `"true"`}))
	})
}

// list writes an array of some of the texts.
func (d draw) list(texts []string) string {
	var literals []string
	for range d.upTo(3) {
		literals = append(literals, d.literal(pick(d, texts)))
	}
	return "[" + strings.Join(literals, pick(d, []string{",", " , "})) + "]"
}

func (m *market) quoteFile(d draw) string {
	var rows [][]member
	for _, a := range m.assets {
		if a.price == "" {
			continue
		}
		r := []member{{"key", d.literal(a.key)}, {"price", a.price}}
		r = d.optional(r, "market_cap", a.cap, "null")
		r = d.optional(r, "volume", a.volume, `"0"`)
		rows = append(rows, r)
	}
	return m.lines(d, rows, m.crowd.rows["quotes"], func(r []member) []member {
		switch d.upTo(3) {
		case 0:
			return with(r, "price", pick(d, append([]string{"null"}, price.refused...)))
		case 1:
			return with(r, pick(d, []string{"market_cap", "volume"}), pick(d, amount.refused))
		case 2:
			return with(r, "key", pick(d, []string{`"nobody"`, `""`, "null", "5"}))
		}
		return with(r, "price", d.decimal(price))
	})
}

func (m *market) exchangeFile(d draw) string {
	var rows [][]member
	for _, e := range m.exchanges {
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
	return m.lines(d, rows, m.crowd.rows["exchanges"], func(r []member) []member {
		switch d.upTo(6) {
		case 0:
			return d.spoilText(r, []string{"key", "name", "slug"}, []string{"logo"})
		case 1:
			return with(r, "id", pick(d, refusedIDs))
		case 2:
			return with(r, pick(d, []string{"links", "fees", "market"}), pick(d, []string{`"x"`, "5", "[]", "true"}))
		case 3:
			return with(r, "links", fmt.Sprintf(`{"chat":%s}`, pick(d, wrongTypes)))
		case 4:
			return with(r, "fees", fmt.Sprintf(`{"taker":%s}`, pick(d, fee.refused)))
		case 5:
			return with(r, "market", fmt.Sprintf(`{"volume_24h":%s}`, pick(d, amount.refused)))
		}
		return with(r, "market", fmt.Sprintf(`{"coins_count":%s}`, pick(d, refusedCounts)))
	})
}

// object is a row that may be empty.
func (d draw) object(members []member) string {
	if len(members) == 0 {
		return "{}"
	}
	return d.row(members)
}

func (m *market) groupFile(d draw, collection string) string {
	var rows [][]member
	for _, g := range m.groups[collection] {
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
	return m.lines(d, rows, m.crowd.rows[collection], func(r []member) []member {
		switch d.upTo(5) {
		case 0:
			return d.spoilText(r, []string{"key", "name", "slug"}, []string{"status"})
		case 1:
			return with(r, "id", pick(d, refusedIDs))
		case 2:
			return with(r, "status", pick(d, []string{`"live"`, `""`, "5", "true"}))
		case 3:
			return with(r, "members", pick(d, []string{`"x"`, "{}", "[5]", "5", "[[]]"}))
		case 4:
			return with(r, "slug", d.literal(pick(d, m.groups[collection]).slug))
		}
		if collection == "chains" {
			return with(r, pick(d, []string{"evm_chain_id", "native", "display_name"}), pick(d, []string{"-1", "1.5", "true", "[]", "{}"}))
		}
		return with(r, "id", integer(int64(d.between(1, 300))))
	})
}
