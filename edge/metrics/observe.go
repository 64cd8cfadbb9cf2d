package metrics

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/server"
	"github.com/prometheus/client_golang/prometheus"
)

// statuses contains the status codes of an edge's answers (INTERFACE.md, "Errors"), and 499 (see
// server.Observation). The last element, 0, counts all other codes as "other".
var statuses = [...]int{200, 204, 206, 304, 400, 401, 404, 405, 408, 410, 412, 413, 416, 429, 431, 499, 500, 503, 0}

// statusIndex maps a status code to its index in statuses.
var statusIndex = func() (index [600]uint8) {
	for i := range index {
		index[i] = uint8(len(statuses) - 1)
	}
	for i, status := range statuses {
		index[status] = uint8(i)
	}
	return index
}()

// bounds contains the upper bounds of the latency histogram's buckets. Most answers fall into the first
// bucket, since composing takes a few microseconds.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
}

// routes is the number of routes: the server's own routes, followed by those of package coingecko.
const routes = server.Routes + coingecko.Endpoints

func routeName(r server.Route) string {
	if int(r) < server.Routes {
		return r.Name()
	}
	return coingecko.Endpoint(int(r) - server.Routes).Name()
}

// routeCounts are the counters of one route. An answer changes three of them: the count for its status and
// latency, and the totals of nanoseconds and bytes. A scrape computes the sums by status and by latency from
// the counts.
type routeCounts struct {
	nanos, bytes atomic.Uint64
	answers      [len(statuses)][len(bounds) + 1]atomic.Uint64
}

// stripe is one copy of all counters, about 90 KiB. Only the counters in use occupy the CPU caches.
type stripe struct {
	route                    [routes]routeCounts
	limitedKey, limitedOther atomic.Uint64
	_                        [128]byte // keeps the next stripe off this cache line and the adjacent one
}

// answers counts answers. There are several copies of each counter, the stripes, and each connection writes
// to one of them. So two cores write to the same cache line only if their connections share a stripe.
type answers struct {
	stripes []stripe
	mask    uint64
}

// init allocates the stripes for a machine with this many cores. There are enough stripes that two busy
// connections rarely share one.
func (a *answers) init(cores int) {
	n := 16
	for n < 4*cores && n < 128 {
		n *= 2
	}
	a.stripes, a.mask = make([]stripe, n), uint64(n-1)
}

func (a *answers) observe(o *server.Observation) {
	s := &a.stripes[o.Conn&a.mask]
	c := &s.route[min(int(o.Route), routes-1)]
	status := uint8(len(statuses) - 1)
	if uint(o.Status) < uint(len(statusIndex)) {
		status = statusIndex[o.Status]
	}
	bucket := 0
	for bucket < len(bounds) && o.Duration > bounds[bucket] {
		bucket++
	}
	c.answers[status][bucket].Add(1)
	c.nanos.Add(uint64(max(0, o.Duration)))
	c.bytes.Add(uint64(max(0, o.Bytes)))
	if o.Status == 429 {
		if o.KeyID != "" {
			s.limitedKey.Add(1)
		} else {
			s.limitedOther.Add(1)
		}
	}
}

// expected returns the status codes that a route is known to answer with. Their series start at 0, because
// rate() would miss the first answer of a series that starts at 1.
func expected(r server.Route) []int {
	switch r {
	case server.RouteStatic:
		return []int{200, 304, 429}
	case server.RouteOptions:
		return []int{204, 429}
	case server.RouteUnknown:
		return []int{404, 405, 429}
	case server.RouteNotYet:
		return []int{503}
	case server.RouteUnread:
		return []int{400, 408, 413, 431, 503}
	case server.RouteFiles:
		return []int{200, 206, 304, 400, 401, 404, 410, 416, 429, 500, 503}
	case server.Route(query.Global), server.Route(server.Routes) + server.Route(coingecko.Coin):
		return []int{200, 304, 400, 401, 404, 410, 429, 500, 503}
	default:
		return []int{200, 304, 400, 401, 410, 429, 500, 503}
	}
}

var (
	requestsDesc = prometheus.NewDesc("edge_http_requests_total",
		"Answers of the public listener, by route and status.", []string{"route", "code"}, nil)
	durationDesc = prometheus.NewDesc("edge_http_request_duration_seconds",
		"Time from reading a request to having its answer ready, by route.", []string{"route"}, nil)
	bytesDesc = prometheus.NewDesc(
		"edge_http_response_bytes_total", "Bytes of the answers' bodies, by route.", []string{"route"}, nil)
	limitedDesc = prometheus.NewDesc("edge_http_rate_limited_total",
		"Requests refused by rate limits: of a key, or of an address without a valid key or for paths that need none.", []string{"by"}, nil)
)

// answerCollector adds up the stripes when Prometheus scrapes.
type answerCollector struct {
	*answers
	coins bool // whether the routes of package coingecko are enabled
}

// Describe implements prometheus.Collector.
func (answerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, durationDesc, bytesDesc, limitedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Answers that are sent during a scrape may be included in some
// sums and not yet in others, but no sum ever decreases.
func (a answerCollector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	var limitedKey, limitedOther uint64
	var sum [routes]struct {
		nanos, bytes uint64
		status       [len(statuses)]uint64
		bucket       [len(bounds) + 1]uint64
	}
	for i := range a.stripes {
		s := &a.stripes[i]
		limitedKey += s.limitedKey.Load()
		limitedOther += s.limitedOther.Load()
		for r := range s.route {
			sum[r].nanos += s.route[r].nanos.Load()
			sum[r].bytes += s.route[r].bytes.Load()
			for status := range s.route[r].answers {
				for bucket := range s.route[r].answers[status] {
					n := s.route[r].answers[status][bucket].Load()
					sum[r].status[status] += n
					sum[r].bucket[bucket] += n
				}
			}
		}
	}
	counter(limitedDesc, limitedKey, "key")
	counter(limitedDesc, limitedOther, "address")
	served := server.Route(server.Routes)
	if a.coins {
		served = server.Route(routes)
	}
	for r := range served {
		route := routeName(r)
		for i, n := range sum[r].status {
			if n > 0 || slices.Contains(expected(r), statuses[i]) {
				counter(requestsDesc, n, route, codeName(statuses[i]))
			}
		}
		counter(bytesDesc, sum[r].bytes, route)
		var count uint64
		within := make(map[float64]uint64, len(bounds))
		for i, n := range sum[r].bucket {
			count += n
			if i < len(bounds) {
				within[bounds[i].Seconds()] = count
			}
		}
		ch <- prometheus.MustNewConstHistogram(durationDesc, count, float64(sum[r].nanos)/1e9, within, route)
	}
}

func codeName(status int) string {
	if status == 0 {
		return "other"
	}
	return strconv.Itoa(status)
}
