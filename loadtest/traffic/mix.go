package traffic

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"github.com/zeebo/xxh3"
)

// Mix is the traffic of a scenario. It is an engine.Source.
type Mix struct {
	scenario *Scenario
	dir      *Directory
	seed     uint64
	keys     []string
	checker  *check.Checker

	classes []string
	class   []int     // by kind
	refused int       // the class of requests that must be refused
	weights []float64 // cumulative, by kind
	rows    map[string]*zipf
	pages   *zipf
	tags    tagCache
	rare    []rare
}

// rare describes a request that must be refused.
type rare struct {
	target string
	expect check.Expect
}

// NewMix returns the traffic of a scenario over a directory. The requests use the keys in turn; without keys,
// they have none. Keys must not contain line breaks.
func NewMix(s *Scenario, d *Directory, seed uint64, keys []string, c *check.Checker) (*Mix, error) {
	m := &Mix{scenario: s, dir: d, seed: seed, keys: keys, checker: c, classes: s.Classes(), rows: map[string]*zipf{}}
	total := 0.0
	for i := range s.Mix {
		k := &s.Mix[i]
		of := k.filtered()
		if k.By != "list" && len(d.entries(of)) == 0 && k.Weight > 0 {
			return nil, fmt.Errorf("the scenario asks /%s by %s, and the service lists none", k.Endpoint, k.By)
		}
		total += k.Weight
		m.weights = append(m.weights, total)
		m.class = append(m.class, slices.Index(m.classes, k.Endpoint))
		if n := len(d.entries(of)); n > 0 && m.rows[of] == nil {
			m.rows[of] = newZipf(n, s.Zipf)
		}
	}
	// 1,000 pages are enough, because most draws by popularity select early pages.
	m.pages = newZipf(1000, max(s.Zipf, 1))
	m.refused = slices.Index(m.classes, refused)
	m.rare = refusals()
	return m, nil
}

// entries returns the rows from which the filter values for an endpoint are drawn.
func (d *Directory) entries(endpoint string) []Entry {
	switch endpoint {
	case "quotes", markets, history, candles, prices, search:
		endpoint = "assets"
	}
	if l := d.Lists[endpoint]; l != nil {
		return l.Entries
	}
	return nil
}

func (d *Directory) total(endpoint string) int {
	if endpoint == markets {
		endpoint = "quotes"
	}
	if l := d.Lists[endpoint]; l != nil {
		return l.Total
	}
	return 0
}

// refusals returns requests that the service must refuse.
func refusals() []rare {
	many := strings.TrimSuffix(strings.Repeat("1,", 101), ",")
	var all []rare
	for _, target := range []string{
		"quotes?size=101", "quotes?limit=10&size=500", "assets?page=0", "assets?page=1.5", "assets?offset=100001",
		"assets?offset=-1",
		"quotes?sort=market_cap", "assets?sort=name:up", "assets?sort=name:", "exchanges?size=0",
		"exchanges?sort=symbol", "exchanges?limit=101",
		"categories?sort=volume", "markets?sort=volume_24h", "chains?sort=display_name", "history",
		"history?id=1&window=1w",
		"history?id=1&size=21", "candles", "candles?id=1&interval=5m", "candles?id=1&from=2&to=1", "prices?id=1",
		"prices?id=1&time=soon", "search", "changes?kind=new", "changes?since=soon",
		"search?q=a+b+c+d+e+f+g+h+i", "trending?by=searched", "quotes?id=abc",
		"quotes?id=" + many, "assets?fields=" + many,
	} {
		all = append(all, rare{model.Prefix + target, check.BadRequest})
	}
	for _, target := range []string{"coins", "assets/", "Assets", "asset%73"} {
		all = append(all, rare{model.Prefix + target, check.NotFound})
	}
	return all
}

// badKeys are keys that no service has issued. "" stands for a request without a key.
var badKeys = []string{"", "mdk_live_000000000000000000000000000000000000000", "secret", "mdk_live_"}

// Classes implements engine.Source.
func (m *Mix) Classes() []string { return m.classes }

// Session implements engine.Source.
func (m *Mix) Session() engine.Session {
	s := &mixSession{m: m, check: m.checker.Session()}
	s.rand = rand.New(&s.pcg)
	return s
}

// mixSession generates the requests of one connection.
type mixSession struct {
	m     *Mix
	check *check.Session
	pcg   rand.PCG
	rand  *rand.Rand

	req    engine.Request
	ask    check.Ask
	coding string
	// The bytes to which the Ask above refers.
	target, accept, pin, tag, id []byte
	tagKey                       []byte
	at                           []byte // precedes the target if byPath is set
	byPath                       bool
}

// Request implements engine.Session.
func (s *mixSession) Request(i uint64, e *client.Endpoint) *engine.Request {
	m, sc, r := s.m, s.m.scenario, s.rand
	// Scramble i, because the generator's first numbers are similar for similar seeds.
	s.pcg.Seed(m.seed^i*0x9e3779b97f4a7c15, i)
	s.ask, s.coding = check.Ask{Expect: check.Success}, ""
	key := ""
	if len(m.keys) > 0 {
		key = m.keys[i%uint64(len(m.keys))]
	}
	k := sort.SearchFloat64s(m.weights, r.Float64()*m.weights[len(m.weights)-1])
	kind := &sc.Mix[min(k, len(sc.Mix)-1)]
	s.req.Class = m.class[min(k, len(sc.Mix)-1)]
	s.target = m.appendTarget(s.target[:0], r, kind)
	switch bad := r.Float64(); {
	case bad < sc.BadKey:
		s.ask.Expect, s.req.Class, key = check.Unauthorized, m.refused, badKeys[r.IntN(len(badKeys))]
	case bad < sc.BadKey+sc.BadParameter:
		refusal := m.rare[r.IntN(len(m.rare))]
		s.ask.Expect, s.req.Class = refusal.expect, m.refused
		s.target = append(s.target[:0], refusal.target...)
	}
	s.ask.Head = r.Float64() < sc.Head
	if r.Float64() < sc.Compressed {
		s.coding = sc.Codings[r.IntN(len(sc.Codings))]
	}
	s.ask.Target, s.req.Head = s.target, s.ask.Head
	b := s.req.Bytes[:0]
	if s.ask.Head {
		b = append(b, "HEAD "...)
	} else {
		b = append(b, "GET "...)
	}
	b = append(b, e.Prefix...)
	path := len(b)
	b = append(b, s.target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, e.Host...)
	b = append(append(b, "\r\n"...), e.Header...)
	if key != "" {
		b = header(b, "X-Api-Key: ", key)
	}
	b = s.conditions(b, i, kind)
	if s.byPath {
		b = slices.Insert(b, path, s.at...)
	}
	s.req.Bytes = append(b, "\r\n"...)
	return &s.req
}

// conditions appends the header fields that only some requests have. It also decides whether the path pins a
// snapshot.
func (s *mixSession) conditions(b []byte, i uint64, kind *Kind) []byte {
	m, sc, r := s.m, s.m.scenario, s.rand
	if s.coding != "" {
		b = header(b, "Accept-Encoding: ", s.coding)
		s.accept = append(s.accept[:0], s.coding...)
		s.ask.Accept = s.accept
	}
	// Draw all numbers whether they are needed or not, so that changing one share does not change which
	// requests the others select.
	pin, conditional, own := r.Float64(), r.Float64() < sc.Conditional, r.Float64() < sc.OwnID
	good := s.ask.Expect == check.Success
	s.byPath = false
	if pin < sc.Pinned && good && filters[kind.Endpoint] != nil {
		if latest := m.checker.Latest(); latest != "" {
			s.pin = append(s.pin[:0], latest...)
			s.ask.Pin = s.pin
			if s.byPath = pin < sc.Pinned/2; s.byPath {
				s.at = append(s.at[:0], "/at/"...)
				for _, c := range s.pin {
					if c != '-' && c != ':' {
						s.at = append(s.at, c)
					}
				}
			} else {
				b = header(b, "X-Snapshot-Time: ", latest)
			}
		}
	}
	s.tagKey = append(append(append(s.tagKey[:0], s.target...), 0), s.coding...)
	if conditional && good && len(s.ask.Pin) == 0 {
		if s.tag = m.tags.get(s.tag[:0], s.tagKey); len(s.tag) > 0 {
			b = append(append(append(b, "If-None-Match: "...), s.tag...), "\r\n"...)
			s.ask.Tag = s.tag
		}
	}
	if own {
		s.id = strconv.AppendUint(append(s.id[:0], "loadtest-"...), i, 10)
		b = append(append(append(b, "X-Request-Id: "...), s.id...), "\r\n"...)
		s.ask.ID = s.id
	}
	return b
}

func header(b []byte, name, value string) []byte {
	return append(append(append(b, name...), value...), "\r\n"...)
}

// Answer implements engine.Session.
func (s *mixSession) Answer(resp *client.Response) engine.Verdict {
	if resp.Status == 200 && s.m.scenario.Conditional > 0 && len(s.ask.Pin) == 0 {
		if tag := resp.Get("ETag"); tag != nil {
			s.m.tags.put(s.tagKey, tag)
		}
	}
	return s.check.Answer(&s.ask, resp)
}

// appendTarget appends the path and query of a random request of kind k.
func (m *Mix) appendTarget(b []byte, r *rand.Rand, k *Kind) []byte {
	b = append(append(b, model.Prefix...), k.Endpoint...)
	if k.CSV {
		b = append(b, ".csv"...)
	}
	p := params{b: b}
	if k.By != "list" {
		m.filter(&p, r, k)
	}
	if len(k.Windows) > 0 {
		if w := k.Windows[r.IntN(len(k.Windows))]; w != "" {
			p.text("window", w)
		}
	}
	if len(k.Intervals) > 0 {
		if i := k.Intervals[r.IntN(len(k.Intervals))]; i != "" {
			p.text("interval", i)
		}
	}
	if k.Times > 0 {
		m.times(&p, r, k.Times)
	}
	if len(k.Collections) > 0 {
		if c := k.Collections[r.IntN(len(k.Collections))]; c != "" {
			p.text("collection", c)
		}
	}
	if len(k.Sorts) > 0 {
		if s := k.Sorts[r.IntN(len(k.Sorts))]; s != "" {
			p.text("sort", s)
		}
	}
	size := 0
	if len(k.Sizes) > 0 {
		size = k.Sizes[r.IntN(len(k.Sizes))]
	}
	if k.By == "list" && filters[k.Endpoint] != nil {
		m.page(&p, r, k, size)
	} else if size > 0 {
		p.number("size", size)
	}
	switch {
	case k.Links > 0 && k.Endpoint == "assets" && r.Float64() < k.Links:
		p.text("fields", "links")
	case k.Groups > 0 && k.Endpoint == markets && r.Float64() < k.Groups:
		p.text("fields", "groups")
	}
	return p.b
}

// filter adds a filter with one to k.Values values, which are drawn by popularity.
func (m *Mix) filter(p *params, r *rand.Rand, k *Kind) {
	of := k.filtered()
	entries, rows := m.dir.entries(of), m.rows[of]
	n := 1
	if k.Values > 1 {
		n = 1 + r.IntN(k.Values)
	}
	p.name(k.By)
	for i := range n {
		if i > 0 {
			p.b = append(p.b, ',')
		}
		e := &entries[rows.draw(r)]
		switch k.By {
		case "q":
			p.b = appendTyped(p.b, r, e)
		case "id":
			p.b = append(p.b, e.ID...)
		case "slug", "category", "chain":
			p.b = append(p.b, e.Slug...)
		default:
			p.b = append(p.b, e.Symbol...)
		}
	}
}

// times adds n times, drawn from the 90 days before the newest snapshot seen in an answer.
func (m *Mix) times(p *params, r *rand.Rand, n int) {
	newest, err := time.Parse(time.RFC3339, m.checker.Latest())
	if err != nil { // there has been no answer yet
		newest = time.Unix(0, 0)
	}
	p.name("time")
	for i := range n {
		if i > 0 {
			p.b = append(p.b, ',')
		}
		p.b = strconv.AppendInt(p.b, newest.Unix()-r.Int64N(90*24*3600), 10)
	}
}

// appendTyped appends a search text that a user who looks for e could type.
func appendTyped(b []byte, r *rand.Rand, e *Entry) []byte {
	if r.IntN(3) == 0 {
		return append(b, e.Symbol[:min(len(e.Symbol), 60)]...)
	}
	text := e.Slug[:min(len(e.Slug), 2+r.IntN(8))]
	if r.IntN(2) == 0 {
		text = strings.ReplaceAll(text, "-", "+")
	}
	return append(b, text...)
}

// page adds the parameters for a page of a listing.
func (m *Mix) page(p *params, r *rand.Rand, k *Kind, size int) {
	rows := size
	if rows == 0 {
		rows = 20
	}
	pages := max(1, (m.dir.total(k.Endpoint)+rows-1)/rows)
	page := 0
	if deep := r.Float64() < k.Deep; deep {
		page = r.IntN(pages)
	} else {
		page = m.pages.draw(r) % pages
	}
	if r.Float64() < k.Offset && page*rows <= 100000 {
		p.number("limit", rows)
		p.number("offset", page*rows)
		return
	}
	if page > 0 {
		p.number("page", page+1)
	}
	if size > 0 {
		p.number("size", size)
	}
}

// params builds a query.
type params struct {
	b     []byte
	begun bool
}

func (p *params) name(name string) {
	if p.begun {
		p.b = append(p.b, '&')
	} else {
		p.b = append(p.b, '?')
	}
	p.begun = true
	p.b = append(append(p.b, name...), '=')
}

func (p *params) text(name, value string) { p.name(name); p.b = append(p.b, value...) }

func (p *params) number(name string, n int) {
	p.name(name)
	p.b = strconv.AppendInt(p.b, int64(n), 10)
}

// tagCache remembers the entity tags of answers, by request. It is safe for concurrent use.
type tagCache struct {
	shards [64]struct {
		mu   sync.RWMutex
		tags map[string][]byte
	}
}

// maxTags bounds the number of requests whose tags are remembered.
const maxTags = 1 << 17

func (c *tagCache) shard(key []byte) int { return int(xxh3.Hash(key) % uint64(len(c.shards))) }

// get appends the tag for a request to dst, if there is one.
func (c *tagCache) get(dst, key []byte) []byte {
	s := &c.shards[c.shard(key)]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append(dst, s.tags[string(key)]...)
}

func (c *tagCache) put(key, tag []byte) {
	s := &c.shards[c.shard(key)]
	s.mu.RLock()
	old, ok := s.tags[string(key)]
	same, full := ok && bytes.Equal(old, tag), !ok && len(s.tags) >= maxTags/len(c.shards)
	s.mu.RUnlock()
	if same || full {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tags == nil {
		s.tags = map[string][]byte{}
	}
	s.tags[string(key)] = bytes.Clone(tag)
}
