package traffic

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/suggest"
	"go.yaml.in/yaml/v3"
)

// Scenario describes a mix of requests. Shares range from 0 to 1.
type Scenario struct {
	// Name is the file name without its extension.
	Name        string `yaml:"-"`
	Description string `yaml:"description"`
	// Zipf is the exponent of popularity: the n-th most popular row has the weight 1/n^Zipf, so 0 gives all
	// rows the same weight. For pages, the exponent is at least 1.
	Zipf float64 `yaml:"zipf"`
	// Mix lists the kinds of requests, which are drawn by weight.
	Mix []Kind `yaml:"mix"`
	// Conditional is the share of requests that send If-None-Match with the entity tag last received for the
	// same request, if there is one.
	Conditional float64 `yaml:"conditional"`
	// Compressed is the share of requests that accept a content coding. Codings are the possible values of
	// Accept-Encoding, drawn with equal probability.
	Compressed float64  `yaml:"compressed"`
	Codings    []string `yaml:"codings"`
	Head       float64  `yaml:"head"`
	// Pinned is the share of list requests that pin the newest snapshot seen so far, as a client does when it
	// reads a listing page by page. Half of them send X-Snapshot-Time, and half use a path under /at/.
	Pinned float64 `yaml:"pinned"`
	// OwnID is the share of requests that send an X-Request-Id.
	OwnID float64 `yaml:"own_id"`
	// BadKey is the share of requests that must be refused with 401, and BadParameter the share that must be
	// refused with 400 or 404.
	BadKey       float64 `yaml:"bad_key"`
	BadParameter float64 `yaml:"bad_parameter"`
}

// Kind is a kind of request to the API.
type Kind struct {
	// Endpoint is assets, quotes, markets, trending, exchanges, global, categories, chains, history, candles,
	// prices, search or changes.
	Endpoint string  `yaml:"endpoint"`
	Weight   float64 `yaml:"weight"`
	// CSV requests the answer as CSV. The endpoints markets, history, candles and prices support it.
	CSV bool `yaml:"csv"`
	// By is "list", which is the default, or the name of a filter: id, slug, symbol or, for markets, category
	// or chain. The endpoints history, candles and prices need a filter. For search, By is q, whose value is
	// a symbol or the first letters of a slug.
	By string `yaml:"by"`
	// Values is the maximum number of values of a filter, 1 to 100. Each request draws its number with equal
	// probability from 1 to Values. The default is 1.
	Values int `yaml:"values"`
	// Sorts and Sizes are the possible values of the parameters "sort" and "size", drawn with equal
	// probability. "" and 0 omit the parameter.
	Sorts []string `yaml:"sorts"`
	Sizes []int    `yaml:"sizes"`
	// Deep is the share of pages that are drawn with equal probability from the whole listing. The other
	// pages are drawn by popularity, with the first page as the most popular.
	Deep float64 `yaml:"deep"`
	// Offset is the share of requests that use limit and offset instead of page and size.
	Offset float64 `yaml:"offset"`
	// Links is the share of requests for assets that have fields=links.
	Links float64 `yaml:"links"`
	// Groups is the share of requests for markets that have fields=groups.
	Groups float64 `yaml:"groups"`
	// Windows are the possible windows of history, drawn with equal probability; "" omits the parameter.
	Windows []string `yaml:"windows"`
	// Intervals are the possible intervals of candles, drawn with equal probability; "" omits the parameter.
	Intervals []string `yaml:"intervals"`
	// Collections are the possible collections of changes, drawn with equal probability; "" omits the
	// parameter.
	Collections []string `yaml:"collections"`
	// Times is the number of times in a request for prices, 1 to 100. They are drawn from the last 90 days.
	// The default is 1.
	Times int `yaml:"times"`
}

//go:embed scenarios/*.yaml
var embedded embed.FS

// Scenarios returns the names of the scenarios that come with the program.
func Scenarios() []string {
	files, err := fs.Glob(embedded, "scenarios/*.yaml")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// LoadScenario loads a built-in scenario by its name, or a file whose path ends in .yaml or .yml.
func LoadScenario(name string) (*Scenario, error) {
	var b []byte
	var err error
	switch {
	case strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		b, err = os.ReadFile(name)
	case slices.Contains(Scenarios(), name):
		b, err = embedded.ReadFile("scenarios/" + name + ".yaml")
	default:
		err = fmt.Errorf("%s, or a .yaml file", WantOne(name, Scenarios()))
	}
	if err != nil {
		return nil, fmt.Errorf("scenario %q: %w", name, err)
	}
	s, err := ParseScenario(b)
	if err != nil {
		return nil, fmt.Errorf("scenario %q: %w", name, err)
	}
	s.Name = strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".yaml"), ".yml")
	return s, nil
}

// ParseScenario parses and checks the YAML of a scenario. Unknown fields are errors, so that misspelled names
// are noticed.
func ParseScenario(b []byte) (*Scenario, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	s := &Scenario{}
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	return s, s.check()
}

// WantOne returns text for an error about an unknown word. It lists the known words and, if word resembles
// one of them, suggests that one.
func WantOne(word string, known []string) string {
	text := "want one of " + strings.Join(known, ", ")
	if near := suggest.Likely(word, known); near != "" {
		text = fmt.Sprintf("did you mean %s? %s", near, text)
	}
	return text
}

// For returns the scenario without the kinds whose filter values come from a listing that is empty in d.
// removedKinds describes the kinds that it removed.
func (s *Scenario) For(d *Directory) (_ *Scenario, removedKinds []string) {
	of := *s
	of.Mix = nil
	for i := range s.Mix {
		if k := &s.Mix[i]; k.By != "list" && len(d.entries(k.filtered())) == 0 {
			removedKinds = append(removedKinds, fmt.Sprintf("/%s by %s", k.Endpoint, k.By))
		} else {
			of.Mix = append(of.Mix, *k)
		}
	}
	return &of, removedKinds
}

// Classes returns the names of the request classes that a Mix of the scenario has: its endpoints and, if some
// requests must be refused, one class for these.
func (s *Scenario) Classes() []string {
	var all []string
	for _, k := range s.Mix {
		if !slices.Contains(all, k.Endpoint) {
			all = append(all, k.Endpoint)
		}
	}
	if s.BadKey > 0 || s.BadParameter > 0 {
		all = append(all, refused)
	}
	return all
}

// filters contains the filters that each list endpoint supports.
var filters = map[string][]string{
	"assets": {"id", "slug", "symbol"}, "quotes": {"id", "slug", "symbol"},
	markets: {"id", "slug", "symbol", "category", "chain"}, history: {"id", "slug", "symbol"},
	candles: {"id", "slug", "symbol"}, prices: {"id", "slug", "symbol"},
	"exchanges": {"id", "slug"}, "categories": {"id", "slug"}, "chains": {"id", "slug"}, search: {"q"},
	changes: {},
}

const (
	history, candles, prices = "history", "candles", "prices"
	search, markets, refused = "search", "markets", "refused"
	changes                  = "changes"
)

// ofPast contains the endpoints for past data, with the maximum number of assets in a request. These endpoints
// need a filter.
var ofPast = map[string]int{history: 100, candles: 20, prices: 100}

// filtered returns the listing from which the values of the kind's filter come.
func (k *Kind) filtered() string {
	switch k.By {
	case "category":
		return "categories"
	case "chain":
		return "chains"
	}
	return k.Endpoint
}

var endpoints = append(slices.Clone(model.Lists), "global", history, candles, prices, search, changes)

func (s *Scenario) check() error {
	share := func(name string, v float64) error {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("%s is %v: a share is from 0 to 1", name, v)
		}
		return nil
	}
	for name, v := range map[string]float64{
		"conditional": s.Conditional, "compressed": s.Compressed, "head": s.Head, "pinned": s.Pinned, "own_id": s.OwnID,
		"bad_key": s.BadKey, "bad_parameter": s.BadParameter,
		"bad_key and bad_parameter together": s.BadKey + s.BadParameter,
	} {
		if err := share(name, v); err != nil {
			return err
		}
	}
	if !(s.Zipf >= 0 && s.Zipf <= 10) {
		return fmt.Errorf("zipf is %v: an exponent is from 0 to 10", s.Zipf)
	}
	if s.Compressed > 0 && len(s.Codings) == 0 {
		return fmt.Errorf("compressed is %v without any codings", s.Compressed)
	}
	for _, c := range s.Codings {
		if strings.ContainsAny(c, "\r\n") {
			return fmt.Errorf("coding %q has a line break", c)
		}
	}
	total := 0.0
	for i := range s.Mix {
		k := &s.Mix[i]
		if err := k.check(share); err != nil {
			return fmt.Errorf("mix, kind %d: %w", i+1, err)
		}
		total += k.Weight
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return fmt.Errorf("mix has no kind with a weight above 0")
	}
	return nil
}

func (k *Kind) check(share func(string, float64) error) error {
	list := filters[k.Endpoint] != nil
	switch {
	case !slices.Contains(endpoints, k.Endpoint):
		return fmt.Errorf("endpoint %q: %s", k.Endpoint, WantOne(k.Endpoint, endpoints))
	case k.CSV && k.Endpoint != markets && ofPast[k.Endpoint] == 0:
		return fmt.Errorf("/%s has no csv", k.Endpoint)
	case !(k.Weight >= 0):
		return fmt.Errorf("weight %v: want 0 or more", k.Weight)
	case k.By == "" || k.By == "list":
		k.By = "list"
	case !slices.Contains(filters[k.Endpoint], k.By):
		return fmt.Errorf(
			"by %q: /%s has %s", k.By, k.Endpoint, strings.Join(append([]string{"list"}, filters[k.Endpoint]...), ", "))
	}
	if list = list && k.Endpoint != search; !list &&
		(len(k.Sorts) > 0 || len(k.Sizes) > 0 || k.Deep != 0 || k.Offset != 0) {
		return fmt.Errorf("/%s has no sorts, sizes or pages", k.Endpoint)
	}
	if k.Endpoint == search && (k.By != "q" || k.Values > 1) {
		return fmt.Errorf("/%s is asked by q, with one value", k.Endpoint)
	}
	if k.Values == 0 {
		k.Values = 1
	}
	if k.Values < 1 || k.Values > 100 {
		return fmt.Errorf("values is %d: want 1 to 100", k.Values)
	}
	if err := k.checkPast(); err != nil {
		return err
	}
	most := 100
	if k.Endpoint == history || k.Endpoint == candles {
		most = 20
	}
	for _, n := range k.Sizes {
		if n < 0 || n > most {
			return fmt.Errorf("size %d: want 1 to %d, or 0 to leave it out", n, most)
		}
	}
	for _, i := range k.Intervals {
		if i != "" && i != "1h" && i != "1d" {
			return fmt.Errorf("interval %q: want 1h or 1d", i)
		}
	}
	for _, w := range k.Windows {
		if w != "" && w != "max" && model.FindWindow(w) == nil {
			return fmt.Errorf("window %q: unknown", w)
		}
	}
	if len(k.Collections) > 0 && k.Endpoint != changes || len(k.Sorts) > 0 && k.Endpoint == changes {
		return fmt.Errorf("/%s has no collections, or no sorts", k.Endpoint)
	}
	for _, s := range slices.Concat(k.Sorts, k.Collections) {
		if strings.ContainsAny(s, "&#? \r\n%+") {
			return fmt.Errorf("sort %q: want KEY, KEY:asc or KEY:desc", s)
		}
	}
	for name, v := range map[string]float64{"deep": k.Deep, "offset": k.Offset, "links": k.Links, "groups": k.Groups} {
		if err := share(name, v); err != nil {
			return err
		}
	}
	return nil
}

// checkPast checks the fields that concern the endpoints for past data.
func (k *Kind) checkPast() error {
	most, past := ofPast[k.Endpoint]
	switch {
	case past && (k.By == "list" || len(k.Sorts) > 0):
		return fmt.Errorf("/%s is asked by id, slug or symbol, and has no sorts", k.Endpoint)
	case past && k.Values > most:
		return fmt.Errorf("values is %d: /%s takes 1 to %d", k.Values, k.Endpoint, most)
	case k.Endpoint != history && len(k.Windows) > 0:
		return fmt.Errorf("/%s has no windows", k.Endpoint)
	case k.Endpoint != candles && len(k.Intervals) > 0:
		return fmt.Errorf("/%s has no intervals", k.Endpoint)
	case k.Endpoint != prices && k.Times != 0:
		return fmt.Errorf("/%s has no times", k.Endpoint)
	case k.Endpoint == prices && k.Times == 0:
		k.Times = 1
	}
	if k.Endpoint == prices && (k.Times < 1 || k.Times > 100 || k.Times*k.Values > 1000) {
		return fmt.Errorf("times is %d: want 1 to 100, and with values at most 1,000 prices", k.Times)
	}
	return nil
}
