package sim

import (
	"strconv"
	"time"
)

var exchangeTails = [...]string{" Exchange", " Exchange", " DEX", " Swap V3 (BSC)", " Pro", " Markets", " & Co", ""}

var linkKinds = [...]string{"website", "twitter", "telegram", "reddit", "facebook", "chat"}

func (m *moment) exchangeRow(b []byte, i int) []byte {
	h := m.seed.with(ofExchange).with(uint64(i))
	name := coin(h.with(ofName))
	name[2] = exchangeTails[h.with(ofName).with(4).below(uint64(len(exchangeTails)))]
	b = append(b, `{"key":`...)
	b = appendNumbered(b, "sim-exchange-", i)
	b = append(b, `,"name":`...)
	b = name.appendJSON(b)
	b = append(b, `,"slug":"`...)
	if h.with(ofSlug).percent(10) { // slugs of exchanges need not be unique
		b = append(b, "velara-exchange"...)
	} else {
		b = name.appendSlug(b, false)
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(i), 36)
	}
	b = append(b, `","logo":`...)
	b = appendNumbered(b, "https://img.sim.example/exchanges/?id=", i)
	b = append(b, `,"links":{`...)
	comma := false
	for k, kind := range linkKinds {
		if !h.with(ofLinks).with(uint64(k)).percent(60) {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = append(b, '"')
		b = append(b, kind...)
		b = append(b, `":`...)
		b = appendNumbered(b, "https://"+kind+".sim.example/exchange/", i)
	}
	b = append(b, '}')
	b = append(b, fees[h.with(ofFees).below(uint64(len(fees)))]...)
	b = m.appendExchangeMarket(b, h, i)
	return append(b, "}\n"...)
}

// fees are the spellings that fees come in.
var fees = [...]string{
	"",
	`,"fees":null`,
	`,"fees":{"maker":"0.00000000","taker":"0.00000000"}`,
	`,"fees":{"maker":"0.00100000","taker":"0.00200000"}`,
	`,"fees":{"maker":0.0025,"taker":2.5e-3}`,
	`,"fees":{"maker":"0.1","taker":"2.3500"}`,
	`,"fees":{"taker":"0.3"}`,
	`,"fees":{"maker":-0,"taker":"0.00000001"}`,
}

// appendExchangeMarket appends an exchange's market. The largest three have a
// whole one; of a hundred others ten have none, eight have null, and of the
// rest any part may be null or missing.
func (m *moment) appendExchangeMarket(b []byte, h hash, i int) []byte {
	whole := i < 3
	switch kind := h.with(ofKind).below(100); {
	case whole:
	case kind < 10:
		return b
	case kind < 18:
		return append(b, `,"market":null`...)
	}
	b = append(b, `,"market":{"volume_24h":`...)
	size := h.with(ofVolume)
	if !whole && size.with(0).percent(10) {
		b = append(b, "null"...)
	} else {
		volume := 34*one - log2Int(uint64(i)+1)*3/2 + size.with(1).between(-one, one) + m.market/2 + size.walk(m.unix)
		b = volume.decimal(10).appendJSON(b, size.with(2))
	}
	counts := h.with(ofCounts)
	for k, name := range [...]string{"markets_count", "coins_count"} {
		c := counts.with(uint64(k))
		if !whole && c.percent(15) {
			continue
		}
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		if !whole && c.with(0).percent(5) {
			b = append(b, "null"...)
			continue
		}
		most := uint64(max(10, m.assets/(i+2)))
		b = strconv.AppendUint(b, c.with(1).below(most)+uint64(2-k), 10)
	}
	b = append(b, `,"data_time":`...)
	at := m.time.Add(-time.Duration(h.with(ofTime).with(0).below(hour)) * time.Second)
	switch kind := h.with(ofTime).with(1).below(100); {
	case whole || kind < 75:
		b = at.AppendFormat(b, `"`+time.RFC3339+`"`)
	case kind < 80:
		b = at.In(time.FixedZone("", 9*hour)).AppendFormat(b, `"`+time.RFC3339+`"`)
	case kind < 85:
		b = at.AppendFormat(b, `"2006-01-02T15:04:05.000Z07:00"`)
	case kind < 88:
		b = append(b, `"1970-01-01T00:00:00Z"`...)
	case kind < 91:
		b = append(b, `"a while ago"`...)
	default:
		b = append(b, "null"...)
	}
	return append(b, '}')
}
