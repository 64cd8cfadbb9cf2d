package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

type exchangeRow struct {
	Key    string            `json:"key"`
	Name   string            `json:"name"`
	Slug   string            `json:"slug"`
	Logo   string            `json:"logo"`
	Links  map[string]string `json:"links"`
	Fees   json.RawMessage   `json:"fees,omitempty"`
	Market any               `json:"market,omitempty"`
}

// marketRow is the market of an exchange.
type marketRow struct {
	Volume   json.RawMessage `json:"volume_24h"`
	Markets  json.RawMessage `json:"markets_count,omitempty"`
	Coins    json.RawMessage `json:"coins_count,omitempty"`
	DataTime *string         `json:"data_time"`
}

var linkKinds = [...]string{"website", "twitter", "telegram", "reddit", "facebook", "chat"}

// fees are the JSON values that an exchange's fees can have, in percent.
var fees = [...]string{
	``, `null`,
	`{"maker":"0.00000000","taker":"0.00000000"}`, `{"maker":"0.10000000","taker":"0.20000000"}`,
	`{"maker":0.025,"taker":2.5e-2}`,
	`{"maker":"0.1","taker":"0.2350"}`, `{"taker":"0.3"}`, `{"maker":-0,"taker":"0.04000000"}`,
}

// exchangeRow returns exchange i. The three largest exchanges have a complete market. Of the
// others, ten percent have no market and eight percent have null. In the remaining markets, any
// field may be null or missing.
func (m *moment) exchangeRow(i int) any {
	h := m.seed.with(ofExchange).with(uint64(i))
	tails := exchangeTails[:]
	if i < m.exchanges-m.exchanges/4 {
		tails = tails[:plainTails]
	}
	name := coin(h.with(ofName)) + h.with(ofName).with(4).pick(tails)
	row := exchangeRow{
		Key: fmt.Sprintf("sim-exchange-%d", i), Name: name, Slug: slug(name) + "-" + strconv.FormatInt(int64(i), 36),
		Logo: fmt.Sprintf("https://img.sim.example/exchanges/?id=%d", i), Links: map[string]string{},
		Fees: json.RawMessage(h.with(ofFees).pick(fees[:])),
	}
	if h.with(ofSlug).percent(10) { // slugs of exchanges need not be unique
		row.Slug = "velara-exchange"
	}
	for k, kind := range linkKinds {
		if h.with(ofLinks).with(uint64(k)).percent(60) {
			row.Links[kind] = fmt.Sprintf("https://%s.sim.example/exchange/%d", kind, i)
		}
	}
	whole := i < 3
	switch kind := h.with(ofKind).below(100); {
	case whole || kind >= 18:
		row.Market = m.exchangeMarket(h, i, whole)
	case kind >= 10:
		row.Market = json.RawMessage(`null`)
	}
	return &row
}

func (m *moment) exchangeMarket(h hash, i int, whole bool) *marketRow {
	var row marketRow
	if size := h.with(ofVolume); whole || !size.with(0).percent(10) {
		cents := capOf(i) / (topCap / 1_000_000) * (m.traded / m.venues) * size.with(1).between(60, 140) / 100
		row.Volume = spell(times(times(cents, m.market), size.walk(m.unix, 100)), -2, 10, size.with(2))
	}
	count := func(h hash, n uint64) json.RawMessage {
		switch {
		case whole:
		case h.percent(15):
			return nil
		case h.with(0).percent(5):
			return json.RawMessage(`null`)
		}
		return strconv.AppendUint(nil, n, 10)
	}
	counts := h.with(ofCounts)
	most := uint64(max(4, m.assets/(i+2)))
	coins := counts.between(most/4, most)
	row.Markets = count(counts.with(0), coins+counts.with(2).below(2*coins))
	row.Coins = count(counts.with(1), coins)
	at := m.time.Add(-time.Duration(h.with(ofTime).with(0).below(hour)) * time.Second)
	switch kind := h.with(ofTime).with(1).below(100); {
	case whole || kind < 75:
		row.DataTime = new(at.Format(time.RFC3339))
	case kind < 80:
		row.DataTime = new(at.In(time.FixedZone("", 9*hour)).Format(time.RFC3339))
	case kind < 85:
		row.DataTime = new(at.Format("2006-01-02T15:04:05.000Z07:00"))
	case m.dirty && kind < 88:
		row.DataTime = new("1970-01-01T00:00:00Z")
	case m.dirty && kind < 91:
		row.DataTime = new("a while ago")
	}
	return &row
}

type groupRow struct {
	Key         string          `json:"key"`
	Name        string          `json:"name"`
	Slug        string          `json:"slug"`
	DisplayName string          `json:"display_name,omitempty"`
	EVMChainID  json.RawMessage `json:"evm_chain_id,omitempty"`
	Native      json.RawMessage `json:"native,omitempty"`
	Status      string          `json:"status"`
	Members     []string        `json:"members"`
}

// The first categories. Their members have a property in common.
const (
	stablecoins = iota
	layerOne
)

func (m *moment) categoryRow(i int) any {
	h := m.seed.with(ofCategory).with(uint64(i))
	row := m.group(h, i, m.assets/3)
	row.Key = fmt.Sprintf("sim-category-%d", i)
	if known := len(categoryNames); i < known {
		row.Name = categoryNames[i]
	} else {
		n := len(categoryAdjectives)
		row.Name = categoryAdjectives[(i-known)%n] + " " + categoryNouns[(i-known)/n]
	}
	row.Slug = slug(row.Name)
	switch i {
	case stablecoins:
		row.Members = m.members(0, 1, maxMembers, (*asset).stable)
	case layerOne:
		row.Members = m.members(0, 1, settled, func(a *asset) bool {
			return a.place < settled && reals[a.place].contracts == nil
		})
	}
	return row
}

func (m *moment) chainRow(i int) any {
	h := m.seed.with(ofChain).with(uint64(i))
	row := m.group(h, i, m.assets/2)
	row.Key = fmt.Sprintf("sim-chain-%d", i)
	native := h.with(ofNative)
	home := m.asset((i*3 + int(native.with(0).below(3))) % m.assets)
	if i < len(realChains) && realChains[i].home < m.assets {
		home = m.asset(realChains[i].home)
	}
	var name string
	row.Name, row.Slug, name = m.chainName(i)
	if h.with(ofName).with(4).percent(50) {
		row.DisplayName = name
	}
	id := h.with(ofKind).with(1)
	switch kind := id.below(100); {
	case i < len(realChains):
		row.EVMChainID = json.RawMessage(realChains[i].evm)
	case kind < 60:
		row.EVMChainID = strconv.AppendUint(nil, id.with(0).below(1_000_000), 10)
	case kind < 63:
		row.EVMChainID = json.RawMessage(`9007199254740991`)
	case kind < 80:
		row.EVMChainID = json.RawMessage(`null`)
	}
	switch kind := native.below(100); {
	case i < len(realChains) || kind < 70:
		row.Native = strconv.AppendQuote(nil, home.key())
		if len(row.Members) > 0 && !slices.Contains(row.Members, home.key()) {
			row.Members[0] = home.key()
		}
	case m.dirty && kind < 77:
		row.Native = json.RawMessage(`"sim-unknown"`)
	case kind < 88:
		row.Native = json.RawMessage(`null`)
	}
	return row
}

// chainName returns the name and the slug of chain i, which never change, and its short name.
func (m *moment) chainName(i int) (name, chainSlug, short string) {
	if i < len(realChains) {
		c := &realChains[i]
		return c.name, c.slug, c.name
	}
	h := m.seed.with(ofChain).with(uint64(i)).with(ofName)
	short = coin(h)
	name = short + h.with(5).pick(chainTails[:])
	return name, slug(name) + "-" + strconv.FormatInt(int64(i), 36), short
}

const (
	// steady is the number of groups at the start of each collection that are always active and
	// always have members.
	steady = 4
	// maxMembers is the maximum number of a group's members, so that its line in the feed stays
	// below the limit of 1 MiB. A member takes up to 17 bytes.
	maxMembers = 60_000
)

// group returns the status and the members of group i. The largest group has about topSize members.
// Of a hundred groups, five are disabled, four are deleted, and six are disabled from time to time
// for hours. Five are empty. In a dirty market, three list a member twice, and three list a member
// that does not exist.
func (m *moment) group(h hash, i, topSize int) *groupRow {
	row := &groupRow{Status: "active", Members: []string{}}
	status := h.with(ofStatus)
	switch kind := status.below(100); {
	case i < steady || kind >= 15:
	case kind >= 5 && kind < 9:
		row.Status = "deleted"
	case kind < 5 || status.with(2).with(uint64(m.turn(status, 2*hour, 20*hour))).percent(40):
		row.Status = "disabled"
	}
	if i >= steady && h.with(ofKind).percent(5) {
		return row
	}
	h = h.with(ofMembers)
	n := min(maxMembers, m.assets, max(1, topSize/(i+1)+int(h.with(0).below(5))))
	at, step := int(h.with(1).below(uint64(m.assets))), int(h.with(2).below(uint64(m.assets)))
	for gcd(step, m.assets) != 1 { // coprime, so that the steps reach all places
		step++
	}
	row.Members = m.members(at, step, n, func(a *asset) bool { // the largest assets have chains of their own
		return a.place >= settled || reals[a.place].contracts != nil || m.assets <= 2*settled
	})
	if m.dirty && h.with(3).percent(3) {
		row.Members = append(row.Members, row.Members[0])
	}
	if m.dirty && h.with(4).percent(3) {
		row.Members = append(row.Members, "sim-unknown")
	}
	return row
}

// members returns the keys of at most n assets for which fits returns true. It starts at a place
// and advances by step.
func (m *moment) members(at, step, n int, fits func(*asset) bool) (keys []string) {
	for range m.assets {
		if len(keys) >= n {
			break
		}
		if a := m.asset(at); fits(&a) {
			keys = append(keys, a.key())
		}
		at = (at + step) % m.assets
	}
	return keys
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
