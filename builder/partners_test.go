package builder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"github.com/holiman/uint256"
)

// candidate is what tells a provider's coins apart, and its quote.
type candidate struct {
	symbol, name string
	addresses    map[string]bool // explorer's host and contract address
	quote        *market.Quote
}

// candidates are those of a feed that have a price, largest first.
func candidates(f *market.Feed) (all []candidate) {
	for i := range f.Quotes {
		if a := &f.Assets[f.Quotes[i].Asset]; !f.Quotes[i].Price.IsZero() {
			all = append(all, candidate{artifacts.Fold(a.Symbol), artifacts.Fold(a.Name), addresses(a.Explorers), &f.Quotes[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(b.quote.MarketCap.Cmp(a.quote.MarketCap), b.quote.Volume.Cmp(a.quote.Volume))
	})
	return all
}

// inLink finds the contract address in a link to an explorer.
var inLink = regexp.MustCompile(`^https?://([^/]+)/(?:.*/)?(0x[0-9a-fA-F]{40}|[A-Za-z0-9]{26,64})/?(?:[?#].*)?$`)

func addresses(links []string) map[string]bool {
	found := map[string]bool{}
	for _, link := range links {
		if m := inLink.FindStringSubmatch(link); m != nil {
			if strings.HasPrefix(m[2], "0x") { // upper case is a check sum there, and says something elsewhere
				m[2] = strings.ToLower(m[2])
			}
			found[m[1]+"/"+m[2]] = true
		}
	}
	return found
}

// contradicts: both have contract addresses, and none in common.
func (c *candidate) contradicts(d *candidate) bool {
	return len(c.addresses) > 0 && len(d.addresses) > 0 && !slices.ContainsFunc(c.links(), func(a string) bool { return d.addresses[a] })
}

// pricedAs: neither price is above the other by more than m.
func (c *candidate) pricedAs(d *candidate, m Move) bool {
	return !m.exceededBy(bigOf(c.quote.Price), bigOf(d.quote.Price))
}

func bigOf(u market.U128) *big.Int { return (&uint256.Int{u.Lo, u.Hi}).ToBig() }

func (c *candidate) text() string { return c.symbol + "\n" + c.name }

func (c *candidate) texts() []string { return []string{c.text()} }

func (c *candidate) links() []string { return slices.Collect(maps.Keys(c.addresses)) }

// confused counts the pairs of one market's coins that have one of what of returns
// in common and are accepted, and the coins of the largest hundred and thousand in one.
func confused(all []candidate, of func(*candidate) []string, accepted func(a, b *candidate) bool) (pairs, hundred, thousand int) {
	have, counted, touched := map[string][]int{}, map[[2]int]bool{}, map[int]bool{}
	for i := range all {
		for _, x := range of(&all[i]) {
			for _, j := range have[x] {
				if !counted[[2]int{j, i}] && accepted(&all[j], &all[i]) {
					counted[[2]int{j, i}], touched[i], touched[j] = true, true, true
				}
			}
			have[x] = append(have[x], i)
		}
	}
	for i := range touched {
		if i < 100 {
			hundred++
		}
		if i < 1000 {
			thousand++
		}
	}
	return len(counted), hundred, thousand
}

// TestPartners measures, on recorded markets, how sure a map can be that says which
// coins of two providers are the same. What it prints stands in source/PARTNERS.md,
// which says why there is none.
func TestPartners(t *testing.T) {
	const recorded = "../../shared/data"
	if testing.Short() {
		t.Skip("measures a market for seconds, and has no goroutines")
	}
	if _, err := os.Stat(recorded); err != nil {
		t.Skipf("the recorded data is not beside the project: %v", err)
	}
	doc, err := os.ReadFile("source/PARTNERS.md")
	if err != nil {
		t.Fatal(err)
	}
	say := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		t.Log(line)
		if !strings.Contains(string(doc), line+"\n") {
			t.Errorf("source/PARTNERS.md does not have this line:\n%s", line)
		}
	}
	read := func(files source.Files) *market.Feed {
		f, _, err := source.Read(t.Context(), files, source.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Assets {
			f.Assets[i].ID = uint64(i + 1)
		}
		return f
	}
	gecko := read(source.FS(os.DirFS(filepath.Join(recorded, "coingecko-2025"))))
	cmc := read(source.FS(os.DirFS(filepath.Join(recorded, "top1000-2026", "2026-07-30T1010Z"))))
	paprika := read(tickersFeed(t, filepath.Join(recorded, "recorded/coinpaprika-2019/tickers-default.json")))

	all := candidates(gecko)
	dollars, without := [2]int{}, [2]int{}
	dollar := candidate{quote: &market.Quote{Price: market.U128{Lo: 1_000_000_000_000_000_000}}}
	for i, n := range []int{100, 1000} {
		for j := range all[:n] {
			if all[j].pricedAs(&dollar, whole/50) {
				dollars[i]++
			}
			if len(all[j].addresses) == 0 {
				without[i]++
			}
		}
	}
	say("Of the largest 100 and 1,000 of %d coins, %d and %d have no contract address, and %d and %d are priced within 2%% of a dollar.", len(all), without[0], without[1], dollars[0], dollars[1])
	for _, rule := range []struct {
		name     string
		of       func(*candidate) []string
		accepted func(a, b *candidate) bool
	}{
		{"symbol and name", (*candidate).texts, func(a, b *candidate) bool { return true }},
		{"symbol, name, and price within 10%", (*candidate).texts, func(a, b *candidate) bool { return a.pricedAs(b, whole/10) }},
		{"symbol, name, and price within 5%", (*candidate).texts, func(a, b *candidate) bool { return a.pricedAs(b, whole/20) }},
		{"symbol, name, and price within 2%", (*candidate).texts, func(a, b *candidate) bool { return a.pricedAs(b, whole/50) }},
		{"symbol, name, price within 5%, and no contradiction of addresses", (*candidate).texts, func(a, b *candidate) bool { return a.pricedAs(b, whole/20) && !a.contradicts(b) }},
		{"a contract address", (*candidate).links, func(a, b *candidate) bool { return true }},
		{"a contract address, and price within 5%", (*candidate).links, func(a, b *candidate) bool { return a.pricedAs(b, whole/20) }},
		{"a contract address, symbol, and price within 5%", (*candidate).links, func(a, b *candidate) bool { return a.symbol == b.symbol && a.pricedAs(b, whole/20) }},
		{"a contract address, symbol, name, and price within 5%", (*candidate).links, func(a, b *candidate) bool { return a.text() == b.text() && a.pricedAs(b, whole/20) }},
	} {
		pairs, hundred, thousand := confused(all, rule.of, rule.accepted)
		say("| %s | %d | %d | %d |", rule.name, pairs, hundred, thousand)
	}

	largest := *gecko
	largest.Quotes = nil
	for _, c := range all[:1000] {
		largest.Quotes = append(largest.Quotes, *c.quote)
	}
	for _, markets := range []struct {
		name          string
		first, second *market.Feed
	}{
		{"CoinGecko, all; CoinMarketCap", gecko, cmc}, {"CoinGecko, `pages=4`; CoinMarketCap", &largest, cmc}, {"CoinMarketCap; CoinGecko", cmc, gecko},
		{"CoinGecko, all; CoinPaprika", gecko, paprika}, {"CoinGecko, `pages=4`; CoinPaprika", &largest, paprika}, {"CoinPaprika; CoinGecko", paprika, gecko},
	} {
		there, here, either := map[string]int{}, map[string]int{}, map[string]bool{}
		for _, c := range candidates(markets.second) {
			there[c.text()]++
			either["symbol "+c.symbol], either["name "+c.name] = true, true
		}
		first := candidates(markets.first)
		for _, c := range first {
			here[c.text()]++
		}
		for _, rule := range []struct {
			name string
			sure func(c *candidate) bool
		}{
			{"symbol and name", func(c *candidate) bool { return here[c.text()] == 1 && there[c.text()] == 1 }},
			{"symbol or name", func(c *candidate) bool { return either["symbol "+c.symbol] || either["name "+c.name] }},
		} {
			next := *markets.first
			next.Quotes = nil
			var covered [4]int
			sum, part := new(big.Int), new(big.Int)
			for i, c := range first {
				sum.Add(sum, bigOf(c.quote.MarketCap))
				if !rule.sure(&c) {
					continue
				}
				part.Add(part, bigOf(c.quote.MarketCap))
				next.Quotes = append(next.Quotes, *c.quote)
				for j, n := range [...]int{10, 100, 1000, len(first)} {
					if i < n {
						covered[j]++
					}
				}
			}
			guards := DefaultGuards
			stops, err := guards.check(t.Context(), epoch.Add(artifacts.Step), &next, &source.Report{}, lastFeed(epoch, markets.first))
			if err != nil {
				t.Fatal(err)
			}
			var rules []string
			for _, stop := range stops {
				rules = append(rules, strings.Split(stop.Error(), ": ")[1])
			}
			share := part.Mul(part, big.NewInt(100)).Quo(part, sum)
			say("| %s | %s | %d | %d | %d | %d of %d | %d%% | %s |", markets.name, rule.name, covered[0], covered[1], covered[2], covered[3], len(first), share, cmp.Or(strings.Join(rules, ", "), "none"))
		}
	}
}

// tickersFeed makes a feed of a recorded answer to CoinPaprika's /tickers.
func tickersFeed(t *testing.T, name string) source.Files {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var tickers []struct {
		ID, Name, Symbol json.RawMessage
		Quotes           struct{ USD map[string]json.RawMessage }
	}
	if err := json.Unmarshal(b, &tickers); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var rows []map[string]json.RawMessage
	for _, r := range tickers {
		rows = append(rows, map[string]json.RawMessage{
			"id": r.ID, "name": r.Name, "symbol": r.Symbol,
			"current_price": r.Quotes.USD["price"], "market_cap": r.Quotes.USD["market_cap"], "total_volume": r.Quotes.USD["volume_24h"],
		})
	}
	return rowsFeed(rows)
}
