package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// row is one row of a collection.
type row interface {
	key() *names
	// check says what of the row breaks FEED.md, "Numbers".
	check() error
	// write appends the row as clients get it.
	write(b *strings.Builder, links bool)
}

// names are the fields that rows are matched and sorted by.
type names struct {
	ID     json.Number `json:"id"`
	Name   string      `json:"name"`
	Symbol string      `json:"symbol"`
	Slug   string      `json:"slug"`
}

type assetRow struct {
	names
	Rank      *json.Number `json:"rank"`
	Logo      string       `json:"logo"`
	Explorers []string     `json:"explorers"`
	Links     *struct {
		Website    string `json:"website"`
		Whitepaper string `json:"whitepaper"`
	} `json:"links"`
}

type quoteRow struct {
	names
	Logo          string            `json:"logo"`
	Price         string            `json:"price"`
	MarketCap     *string           `json:"market_cap"`
	Volume        string            `json:"volume"`
	PercentChange map[string]string `json:"percent_change"`
}

// windows are the percent changes in their order (FEED.md, "Figures").
var windows = []string{"1h", "6h", "12h", "24h", "7d", "30d", "90d", "1y"}

// exchangeLinks are an exchange's links in their order (FEED.md, "Files").
var exchangeLinks = []string{"website", "twitter", "telegram", "reddit", "facebook", "chat"}

type exchangeRow struct {
	ID    json.Number       `json:"id"`
	Name  string            `json:"name"`
	Slug  string            `json:"slug"`
	Logo  string            `json:"logo"`
	Links map[string]string `json:"links"`
	Fees  struct {
		Maker string `json:"maker"`
		Taker string `json:"taker"`
	} `json:"fees"`
	Market *struct {
		Volume       *string      `json:"volume_24h"`
		MarketsCount *json.Number `json:"markets_count"`
		CoinsCount   *json.Number `json:"coins_count"`
		DataTime     *string      `json:"data_time"`
	} `json:"market"`
}

type groupMarket struct {
	MarketCap    string      `json:"market_cap"`
	Volume       string      `json:"volume_24h"`
	CoinsCount   json.Number `json:"coins_count"`
	Share        string      `json:"market_cap_share"`
	SnapshotTime string      `json:"snapshot_time"`
	TopGainers   []struct {
		ID     json.Number `json:"id"`
		Symbol string      `json:"symbol"`
		Name   string      `json:"name"`
		Slug   string      `json:"slug"`
		Logo   string      `json:"logo"`
	} `json:"top_gainers"`
}

type categoryRow struct {
	ID     json.Number `json:"id"`
	Name   string      `json:"name"`
	Slug   string      `json:"slug"`
	Market groupMarket `json:"market"`
}

type chainRow struct {
	ID          json.Number  `json:"id"`
	Name        string       `json:"name"`
	DisplayName string       `json:"display_name"`
	Slug        string       `json:"slug"`
	EVMChainID  *json.Number `json:"evm_chain_id"`
	Logo        string       `json:"logo"`
	Market      groupMarket  `json:"market"`
}

func newRow(collection string) row {
	switch collection {
	case "assets":
		return &assetRow{}
	case "quotes", "trending":
		return &quoteRow{}
	case "exchanges":
		return &exchangeRow{}
	case "categories":
		return &categoryRow{}
	case "chains":
		return &chainRow{}
	}
	panic("BUG: collection " + collection)
}

// decodeRow reads a row as it is stored. A field that the row's kind does not
// have is an error.
func decodeRow(collection string, b []byte) (row, error) {
	r := newRow(collection)
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	if _, err := strconv.ParseUint(string(r.key().ID), 10, 53); err != nil {
		return nil, fmt.Errorf("id %q", r.key().ID)
	}
	return r, r.check()
}

func (r *assetRow) key() *names    { return &r.names }
func (r *quoteRow) key() *names    { return &r.names }
func (r *exchangeRow) key() *names { return &names{ID: r.ID, Name: r.Name, Slug: r.Slug} }
func (r *categoryRow) key() *names { return &names{ID: r.ID, Name: r.Name, Slug: r.Slug} }
func (r *chainRow) key() *names    { return &names{ID: r.ID, Name: r.Name, Slug: r.Slug} }

// decimalText is a decimal as FEED.md, "Numbers" writes it, -0 aside.
var decimalText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)

// decimal reports what is wrong with a decimal of at most so many decimals.
func decimal(name, s string, decimals int, signed bool) error {
	_, fraction, _ := strings.Cut(s, ".")
	if !decimalText.MatchString(s) || s == "-0" || len(fraction) > decimals || !signed && strings.HasPrefix(s, "-") {
		return fmt.Errorf("%s is %q, no decimal of at most %d places as section 6 writes it", name, s, decimals)
	}
	return nil
}

func (r *assetRow) check() error {
	if r.Links == nil {
		return errors.New("no links")
	}
	if r.Rank == nil {
		return nil
	}
	if n, err := strconv.ParseUint(string(*r.Rank), 10, 53); err != nil || n == 0 {
		return fmt.Errorf("rank is %q", *r.Rank)
	}
	return nil
}

func (r *quoteRow) check() error {
	errs := []error{decimal("price", r.Price, 18, false), decimal("volume", r.Volume, 8, false)}
	if r.MarketCap != nil {
		errs = append(errs, decimal("market_cap", *r.MarketCap, 8, false))
		if *r.MarketCap == "0" {
			errs = append(errs, errors.New("market_cap is 0, which stands for unknown and is null"))
		}
	}
	if len(r.PercentChange) != len(windows) {
		errs = append(errs, fmt.Errorf("%d percent changes, want %d", len(r.PercentChange), len(windows)))
	}
	for _, w := range windows {
		errs = append(errs, decimal("percent_change."+w, r.PercentChange[w], 12, true))
	}
	return errors.Join(errs...)
}

func (r *exchangeRow) check() error {
	errs := []error{decimal("fees.maker", r.Fees.Maker, 8, false), decimal("fees.taker", r.Fees.Taker, 8, false)}
	if len(r.Links) != len(exchangeLinks) {
		errs = append(errs, fmt.Errorf("%d links, want %d", len(r.Links), len(exchangeLinks)))
	}
	if r.Market != nil && r.Market.Volume != nil {
		errs = append(errs, decimal("market.volume_24h", *r.Market.Volume, 8, false))
	}
	return errors.Join(errs...)
}

func (m *groupMarket) check() error {
	err := errors.Join(decimal("market_cap", m.MarketCap, 8, false), decimal("volume_24h", m.Volume, 8, false), decimal("market_cap_share", m.Share, 12, false))
	if len(m.TopGainers) > 3 {
		err = errors.Join(err, fmt.Errorf("%d top gainers", len(m.TopGainers)))
	}
	return err
}

func (r *categoryRow) check() error { return r.Market.check() }
func (r *chainRow) check() error    { return r.Market.check() }

// quote writes s as a JSON string: only ", \ and the control characters below
// U+0020 are escaped (INTERFACE.md, "Envelope").
func quote(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// object writes a JSON object field by field.
type object struct {
	b     *strings.Builder
	begun bool
}

func begin(b *strings.Builder) *object { return &object{b: b} }

func (o *object) name(name string) {
	if o.begun {
		o.b.WriteByte(',')
	} else {
		o.b.WriteByte('{')
	}
	o.begun = true
	quote(o.b, name)
	o.b.WriteByte(':')
}

func (o *object) text(name, s string) { o.name(name); quote(o.b, s) }

func (o *object) number(name string, n json.Number) { o.name(name); o.b.WriteString(n.String()) }

func (o *object) textOrNull(name string, s *string) {
	if s != nil {
		o.text(name, *s)
		return
	}
	o.name(name)
	o.b.WriteString("null")
}

func (o *object) numberOrNull(name string, n *json.Number) {
	if n != nil {
		o.number(name, *n)
		return
	}
	o.name(name)
	o.b.WriteString("null")
}

func (o *object) texts(name string, keys []string, values map[string]string) {
	o.name(name)
	inner := begin(o.b)
	for _, k := range keys {
		inner.text(k, values[k])
	}
	inner.end()
}

func (o *object) end() {
	if !o.begun {
		o.b.WriteByte('{')
	}
	o.b.WriteByte('}')
}

func (r *assetRow) write(b *strings.Builder, links bool) {
	o := begin(b)
	o.number("id", r.ID)
	if r.Rank != nil {
		o.number("rank", *r.Rank)
	}
	o.text("name", r.Name)
	o.text("symbol", r.Symbol)
	o.text("slug", r.Slug)
	o.text("logo", r.Logo)
	o.name("explorers")
	b.WriteByte('[')
	for i, e := range r.Explorers {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(b, e)
	}
	b.WriteByte(']')
	if links {
		o.name("links")
		inner := begin(b)
		inner.text("website", r.Links.Website)
		inner.text("whitepaper", r.Links.Whitepaper)
		inner.end()
	}
	o.end()
}

func (r *quoteRow) write(b *strings.Builder, _ bool) {
	o := begin(b)
	o.number("id", r.ID)
	o.text("name", r.Name)
	o.text("symbol", r.Symbol)
	o.text("slug", r.Slug)
	o.text("logo", r.Logo)
	o.text("price", r.Price)
	o.textOrNull("market_cap", r.MarketCap)
	o.text("volume", r.Volume)
	o.texts("percent_change", windows, r.PercentChange)
	o.end()
}

func (r *exchangeRow) write(b *strings.Builder, _ bool) {
	o := begin(b)
	o.number("id", r.ID)
	o.text("name", r.Name)
	o.text("slug", r.Slug)
	o.text("logo", r.Logo)
	o.texts("links", exchangeLinks, r.Links)
	o.texts("fees", []string{"maker", "taker"}, map[string]string{"maker": r.Fees.Maker, "taker": r.Fees.Taker})
	o.name("market")
	if m := r.Market; m == nil {
		b.WriteString("null")
	} else {
		inner := begin(b)
		inner.textOrNull("volume_24h", m.Volume)
		inner.numberOrNull("markets_count", m.MarketsCount)
		inner.numberOrNull("coins_count", m.CoinsCount)
		inner.textOrNull("data_time", m.DataTime)
		inner.end()
	}
	o.end()
}

func (m *groupMarket) write(b *strings.Builder) {
	o := begin(b)
	o.text("market_cap", m.MarketCap)
	o.text("volume_24h", m.Volume)
	o.number("coins_count", m.CoinsCount)
	o.text("market_cap_share", m.Share)
	o.text("snapshot_time", m.SnapshotTime)
	o.name("top_gainers")
	b.WriteByte('[')
	for i, g := range m.TopGainers {
		if i > 0 {
			b.WriteByte(',')
		}
		inner := begin(b)
		inner.number("id", g.ID)
		inner.text("symbol", g.Symbol)
		inner.text("name", g.Name)
		inner.text("slug", g.Slug)
		inner.text("logo", g.Logo)
		inner.end()
	}
	b.WriteByte(']')
	o.end()
}

func (r *categoryRow) write(b *strings.Builder, _ bool) {
	o := begin(b)
	o.number("id", r.ID)
	o.text("name", r.Name)
	o.text("slug", r.Slug)
	o.name("market")
	r.Market.write(b)
	o.end()
}

func (r *chainRow) write(b *strings.Builder, _ bool) {
	o := begin(b)
	o.number("id", r.ID)
	o.text("name", r.Name)
	o.text("display_name", r.DisplayName)
	o.text("slug", r.Slug)
	o.numberOrNull("evm_chain_id", r.EVMChainID)
	o.text("logo", r.Logo)
	o.name("market")
	r.Market.write(b)
	o.end()
}
