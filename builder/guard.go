package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"github.com/holiman/uint256"
)

// Errors from a build that refuses to publish. They are returned wrapped, with details.
var (
	// ErrGuard means that a guard rail stopped the build (FEED.md, "Guard rails"). --allow
	// overrides individual guard rails, and --force overrides all of them.
	ErrGuard = errors.New("guard rail")
	// ErrOlder means that T is older than the published snapshot.
	ErrOlder = errors.New("older than the published snapshot")
	// ErrOther means that a snapshot for T is already published, made from other rows or settings.
	ErrOther = errors.New("published already, from other rows or settings")
	// ErrWithdrawn means that a rollback or a restore withdrew T (INTERFACE.md, "Pinned paging").
	ErrWithdrawn = errors.New("withdrawn; want a later time")
)

// Share is a fraction in millionths, from 0 to 1,000,000.
type Share int64

// Move is a relative change in millionths. For example, 100% allows a figure to double or to halve.
// It ranges from 0 to 1,000,000%.
type Move int64

const (
	whole   = 1_000_000
	maxMove = 10_000 * whole
)

// parseMillionths parses a decimal ("0.05") or a percentage ("5%"), and returns it in millionths,
// rounded down. The result must be from 0 to limit.
func parseMillionths(s string, limit int64) (int64, error) {
	number, percent := strings.CutSuffix(s, "%")
	r, ok := new(big.Rat).SetString(number)
	if ok && len(s) <= 20 && !strings.ContainsAny(number, "/eEpPxX_") {
		r.Mul(r, big.NewRat(whole, 1))
		if percent {
			r.Quo(r, big.NewRat(100, 1))
		}
		if r.Sign() >= 0 && r.Cmp(big.NewRat(limit, 1)) <= 0 {
			return new(big.Int).Quo(r.Num(), r.Denom()).Int64(), nil
		}
	}
	return 0, fmt.Errorf("%.40q: want a number from 0 to %d, or a percentage such as 5%%", s, limit/whole)
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts a decimal ("0.05") or a percentage
// ("5%").
func (s *Share) UnmarshalText(b []byte) error {
	n, err := parseMillionths(string(b), whole)
	*s = Share(n)
	return err
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts a decimal ("9") or a percentage
// ("900%").
func (m *Move) UnmarshalText(b []byte) error {
	n, err := parseMillionths(string(b), maxMove)
	*m = Move(n)
	return err
}

// String returns the share as a percentage.
func (s Share) String() string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", s/10_000, s%10_000), "0"), ".") + "%"
}

// String returns the move as a percentage.
func (m Move) String() string { return Share(m).String() }

// exceededBy reports whether count is more than this share of total.
func (s Share) exceededBy(count, total int) bool { return int64(count)*whole > int64(s)*int64(total) }

// exceededBy reports whether newValue/oldValue is greater than 1 + m or less than 1/(1 + m).
// oldValue must not be zero.
func (m Move) exceededBy(newValue, oldValue *big.Int) bool {
	times := func(x *big.Int, y int64) *big.Int { return new(big.Int).Mul(x, big.NewInt(y)) }
	most := whole + int64(m)
	return times(newValue, whole).Cmp(times(oldValue, most)) > 0 ||
		times(newValue, most).Cmp(times(oldValue, whole)) < 0
}

// Rule is the name of a guard rail that can be overridden individually.
type Rule string

// The rules, named as in FEED.md, "Guard rails".
const (
	ruleBadRows  Rule = "bad rows"
	ruleAhead    Rule = "ahead"
	ruleStale    Rule = "stale"
	ruleShrink   Rule = "shrink"
	ruleMoves    Rule = "moves"
	ruleMedian   Rule = "median"
	ruleCaps     Rule = "caps"
	ruleVolumes  Rule = "volumes"
	ruleCapsLost Rule = "caps lost"
	ruleRenamed  Rule = "renamed"
	ruleEmpty    Rule = "empty" // only --force overrides it: an empty feed is almost certainly a mistake
)

var rules = []Rule{
	ruleBadRows, ruleAhead, ruleStale, ruleShrink, ruleMoves, ruleMedian, ruleCaps, ruleVolumes, ruleCapsLost,
	ruleRenamed,
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts a rule's name, written with spaces
// or hyphens.
func (r *Rule) UnmarshalText(b []byte) error {
	*r = Rule(strings.ReplaceAll(strings.TrimSpace(string(b)), "-", " "))
	if slices.Contains(rules, *r) {
		return nil
	}
	names := make([]string, len(rules))
	for i, rule := range rules {
		names[i] = rule.flag()
	}
	return fmt.Errorf("no rule %.40q; want one or more of %s", b, strings.Join(names, ", "))
}

// flag returns the rule's name in a form that needs no quotes in a shell.
func (r Rule) flag() string { return strings.ReplaceAll(string(r), " ", "-") }

// Guards are the limits from FEED.md, "Guard rails", as flags.
type Guards struct {
	MaxBadRows    Share         `hidden:"" default:"5%" help:"Stop if more than this share of a file's rows, and more than ten rows, are set aside: 0.05 or 5%."`
	MaxShrink     Share         `hidden:"" default:"50%" help:"Stop if a collection has lost more than this share of its rows since the last snapshot."`
	MaxMove       Share         `hidden:"" default:"20%" help:"Stop if more than this share of the hundred largest assets, or any of the ten largest, moved more than fivefold or lost its price. This limit and the following ones apply if the last snapshot is less than a day old."`
	MaxMedianMove Move          `hidden:"" default:"100%" help:"Stop if the median ratio of new to old prices is above 1 + this, or below 1 / (1 + this)."`
	MaxCapMove    Move          `hidden:"" default:"100%" help:"Stop if the sum of market caps moved by more than this, measured in the same way."`
	MaxVolumeMove Move          `hidden:"" default:"900%" help:"Stop if the sum of volumes moved by more than this, measured in the same way."`
	MaxCapLoss    Share         `hidden:"" default:"20%" help:"Stop if more than this share of the assets with a market cap have lost it."`
	MaxRename     Share         `hidden:"" default:"20%" help:"Stop if more than this share of the assets changed name, symbol or slug."`
	MaxDataAge    time.Duration `hidden:"" default:"6h" help:"Stop if the newest price of a live source is older than this at the snapshot's time. This applies to the first snapshot, too."`
	Allow         []Rule        `placeholder:"RULE" help:"Publish even if these rules would stop the build. RULE is one or more of: bad-rows, ahead, stale, shrink, moves, median, caps, volumes, caps-lost, renamed."`
	Force         bool          `help:"Publish even if any of these limits would stop the build, or if the feed has no asset or no quote."`
}

// DefaultGuards are the default limits from FEED.md, "Guard rails".
var DefaultGuards = Guards{
	MaxBadRows: whole / 20, MaxShrink: whole / 2, MaxMove: whole / 5, MaxMedianMove: whole, MaxCapMove: whole,
	MaxVolumeMove: 9 * whole, MaxCapLoss: whole / 5, MaxRename: whole / 5, MaxDataAge: 6 * time.Hour,
}

const (
	minBadRows   = 10  // this many rows of a file may always be set aside
	moveFactor   = 5   // a price has moved if it rose or fell by more than this factor
	largest      = 100 // number of assets that are compared individually
	untouchable  = 10  // the build stops if any of this many largest assets has moved
	minSum       = 20  // the median and the sums are checked only for at least this many assets
	minShared    = 11  // shares of assets are checked only for at least this many assets
	examples     = 3   // number of rows that an error names
	compareUntil = 24 * time.Hour
)

// collections are the collections of a feed, in report order.
var collections = []string{"assets", "quotes", "exchanges", "categories", "chains"}

// counts returns the number of a feed's accepted rows by collection.
func counts(f *market.Feed) map[string]int {
	return map[string]int{
		"assets": len(f.Assets), "quotes": len(f.Quotes), "exchanges": len(f.Exchanges),
		"categories": len(f.Categories), "chains": len(f.Chains), "rates": len(f.Rates),
	}
}

// stopError is an ErrGuard for one rule.
type stopError struct {
	rule Rule
	text string
}

func (e *stopError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrGuard, e.rule, e.text) }

func (e *stopError) Unwrap() error { return ErrGuard }

// stop returns a rule's error. samples holds examples of what violates the rule, flag is the rule's
// flag, and format and args state the figures.
func stop(rule Rule, samples []string, flag, format string, args ...any) error {
	figures := fmt.Sprintf(format, args...)
	if len(samples) > 0 {
		figures += "; such as " + strings.Join(samples, ", ")
	}
	if rule != ruleEmpty {
		flag = strings.TrimPrefix(flag+"; if it is right, --allow "+rule.flag()+" lets it pass", "; ")
	}
	return &stopError{rule, fmt.Sprintf("%s (%s)", figures, flag)}
}

// overrides reports whether a flag lets the build ignore err.
func (g *Guards) overrides(err error) bool {
	var s *stopError
	return g.Force || errors.As(err, &s) && slices.Contains(g.Allow, s.rule)
}

// Override returns the rules that --allow must name, as in "moves,caps", to make the build that
// failed with err pass. They include the rules that g already allows. It returns "" if no guard
// rail stopped the build, or if --allow cannot override one of those that did.
func (g *Guards) Override(err error) string {
	stops, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return ""
	}
	allow := slices.Clone(g.Allow)
	for _, stopped := range stops.Unwrap() {
		var s *stopError
		if !errors.As(stopped, &s) || s.rule == ruleEmpty {
			return ""
		}
		if !slices.Contains(allow, s.rule) {
			allow = append(allow, s.rule)
		}
	}
	var names []string
	for _, r := range allow {
		names = append(names, r.flag())
	}
	return strings.Join(names, ",")
}

// check returns an ErrGuard for each violated rule. The feed's rows must already have their ids.
// last is nil if there is no previous snapshot. Any other error means that the last snapshot could
// not be read.
func (g *Guards) check(ctx context.Context, in *input, last *lastSnapshot) (stops []error, err error) {
	f := in.feed
	stops = append(g.badRows(in.rows), g.empty(f)...)
	stops = append(stops, g.stale(in.t, in.rows)...)
	if last == nil {
		return stops, nil
	}
	shrunk, err := g.shrink(ctx, last, f)
	stops = append(stops, shrunk...)
	if err != nil || in.t.Sub(last.time) >= compareUntil {
		return stops, err
	}
	c, err := compare(ctx, last, f)
	if err != nil {
		return stops, err
	}
	for _, rule := range []func(*comparison) error{g.moves, g.median, g.caps, g.volumes, g.capsLost, g.renamed} {
		if err := rule(c); err != nil {
			stops = append(stops, err)
		}
	}
	return stops, nil
}

// badRows checks the rejected rows of each file.
func (g *Guards) badRows(r *source.Report) (stops []error) {
	for _, f := range r.Files {
		if f.Rejected > minBadRows && g.MaxBadRows.exceededBy(f.Rejected, f.Rows) {
			var such []string
			for _, row := range f.Rejections[:min(examples, len(f.Rejections))] {
				such = append(such, row.String())
			}
			stops = append(
				stops, stop(ruleBadRows, such, "--max-bad-rows", "%s: %d of %d rows set aside, more than %s", f.Shown,
					f.Rejected, f.Rows, g.MaxBadRows))
		}
	}
	return stops
}

// Ahead returns an ErrGuard if t, the time of a snapshot, is more than ten minutes ahead of now. If
// such a snapshot were published, builds for the present would be refused. If it were the first
// one, even a rollback would be impossible.
func Ahead(t, now time.Time) error {
	if t.Sub(now) <= artifacts.Step {
		return nil
	}
	return stop(ruleAhead, nil, "", "the snapshot's time, %s, is %v past the clock, %s; more than %v",
		publish.Stamp(t), t.Sub(now).Round(time.Second), publish.Stamp(now), artifacts.Step)
}

func (g *Guards) empty(f *market.Feed) (stops []error) {
	for _, c := range collections[:2] {
		if counts(f)[c] == 0 {
			stops = append(stops, stop(ruleEmpty, nil, "--force", "no row of %s is accepted", c))
		}
	}
	return stops
}

// stale compares the time of a live source's newest quote, as the provider states it, with t.
func (g *Guards) stale(t time.Time, r *source.Report) (stops []error) {
	var newest *source.Part
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Quotes && (newest == nil || p.Newest.After(newest.Newest)) {
			newest = p
		}
	}
	if newest == nil || newest.Newest.IsZero() || t.Sub(newest.Newest) <= g.MaxDataAge {
		return nil
	}
	return []error{stop(ruleStale, nil, "--max-data-age",
		"the newest row of %s is of %s, %v before the snapshot's time; more than %v",
		newest.Name, publish.Stamp(newest.Newest), t.Sub(newest.Newest), g.MaxDataAge)}
}

// shrink compares the numbers of accepted rows with the numbers in the last snapshot. readErr is
// the error from reading that snapshot's rows.
func (g *Guards) shrink(ctx context.Context, last *lastSnapshot, f *market.Feed) (stops []error, readErr error) {
	now := counts(f)
	for _, c := range collections {
		was := last.counts[c]
		if lost := was - now[c]; lost <= 0 || !g.MaxShrink.exceededBy(lost, was) {
			continue
		}
		have := map[uint64]bool{}
		for _, r := range rowsOf(f, c) {
			have[r.id] = true
		}
		var gone []string
		err := last.rows(ctx, c, func(rows []lastRow) {
			for i := range rows {
				if r := &rows[i]; !have[r.id] && len(gone) < examples {
					gone = append(gone, fmt.Sprintf("%d (%s)", r.id, r.slug))
				}
			}
		})
		stops = append(stops,
			stop(ruleShrink, gone, "--max-shrink", "%s went from %d accepted rows to %d; more than %s lost", c, was,
				now[c],
				g.MaxShrink))
		readErr = errors.Join(readErr, err)
	}
	return stops, readErr
}

// comparison compares a feed with the last snapshot. An unknown market cap counts as zero, and so
// does the market cap of an asset without a quote.
type comparison struct {
	assets, renamed int
	newNames        []string // examples

	// top holds the quotes of the last snapshot's largest assets, in descending order.
	top []lastRow
	// ratios has an entry for each asset whose price was greater than zero and still is.
	ratios []ratio
	// Sums over the assets that are in both the feed and the last snapshot.
	capWas, capNow, volumeWas, volumeNow uint256.Int

	capped, uncapped int // how many assets had a market cap, and how many of them lost it
	capless          []string

	feed  *market.Feed
	asset map[uint64]int  // an asset's index in the feed, by id
	quote []*market.Quote // by an asset's index; nil for an asset without a quote
}

// ratio holds an asset's price in the last snapshot and in the feed. Both are greater than zero.
type ratio struct{ was, now market.U128 }

// compare reads the rows of the last snapshot once. Apart from prices, it keeps only the largest
// rows in memory.
func compare(ctx context.Context, last *lastSnapshot, f *market.Feed) (*comparison, error) {
	c := &comparison{feed: f, asset: make(map[uint64]int, len(f.Assets)), quote: make([]*market.Quote, len(f.Assets))}
	for i := range f.Assets {
		c.asset[f.Assets[i].ID] = i
	}
	for q := range f.Quotes {
		c.quote[f.Quotes[q].Asset] = &f.Quotes[q]
	}
	if err := last.rows(ctx, "assets", c.addAssets); err != nil {
		return nil, err
	}
	return c, last.rows(ctx, "quotes", c.addQuotes)
}

func (c *comparison) addAssets(rows []lastRow) {
	for i := range rows {
		was := &rows[i]
		at, ok := c.asset[was.id]
		if !ok {
			continue
		}
		c.assets++
		now := &c.feed.Assets[at]
		if was.name != now.Name || was.symbol != now.Symbol || was.slug != now.Slug {
			c.renamed++
			if len(c.newNames) < examples {
				c.newNames = append(
					c.newNames, fmt.Sprintf("asset %d: %q, %q, %q is now %q, %q, %q", was.id, was.name, was.symbol,
						was.slug, now.Name, now.Symbol, now.Slug))
			}
		}
		if q := c.quote[at]; q != nil {
			add(&c.capNow, q.MarketCap)
			add(&c.volumeNow, q.Volume)
		}
	}
}

func (c *comparison) addQuotes(rows []lastRow) {
	for i := range rows {
		was := &rows[i]
		at, ok := c.asset[was.id]
		if !ok {
			continue
		}
		add(&c.capWas, was.marketCap)
		add(&c.volumeWas, was.volume)
		now := c.quote[at]
		if now != nil && !now.Price.IsZero() && !was.price.IsZero() {
			c.ratios = append(c.ratios, ratio{was.price, now.Price})
		}
		if was.marketCap.IsZero() {
			continue
		}
		c.capped++
		if now == nil || now.MarketCap.IsZero() {
			c.uncapped++
			if len(c.capless) < examples {
				c.capless = append(c.capless, fmt.Sprintf("asset %d (%s)", was.id, c.feed.Assets[at].Slug))
			}
		}
	}
	c.top = append(c.top, rows...)
	slices.SortFunc(c.top, func(a, b lastRow) int {
		return cmp.Or(b.marketCap.Cmp(a.marketCap), b.volume.Cmp(a.volume), cmp.Compare(a.id, b.id))
	})
	c.top = slices.Clone(c.top[:min(len(c.top), largest)])
}

func add(sum *uint256.Int, u market.U128) { sum.Add(sum, &uint256.Int{u.Lo, u.Hi}) }

// moves checks how far the price of each of the last snapshot's largest assets has moved.
func (g *Guards) moves(c *comparison) error {
	priced, moved, foremost := 0, 0, false
	var such []string
	for i := range c.top {
		was := &c.top[i]
		if was.price.IsZero() {
			continue
		}
		priced++
		if now := c.now(was.id); now != nil && !farFrom(was.price, now.Price) {
			continue
		}
		moved++
		foremost = foremost || i < untouchable
		if len(such) < examples {
			such = append(such, c.change(was, priceOf, market.PriceDecimals))
		}
	}
	if foremost || priced >= minShared && g.MaxMove.exceededBy(moved, priced) {
		return stop(ruleMoves, such, "--max-move",
			"of the %d largest assets, %d moved by more than a factor of %d or lost their price; more than %s, or one of the"+
				" %d largest",
			priced, moved, moveFactor, g.MaxMove, untouchable)
	}
	return nil
}

// farFrom reports whether two prices differ by more than a factor of moveFactor.
func farFrom(was, now market.U128) bool {
	a, b, factor := &uint256.Int{was.Lo, was.Hi}, &uint256.Int{now.Lo, now.Hi}, uint256.NewInt(moveFactor)
	return b.Gt(new(uint256.Int).Mul(a, factor)) || a.Gt(new(uint256.Int).Mul(b, factor))
}

func (g *Guards) median(c *comparison) error {
	n := len(c.ratios)
	if n < minSum {
		return nil
	}
	// Prices are less than 10^36, so products of two are less than 2^240.
	product := func(u, v market.U128) *uint256.Int {
		return new(uint256.Int).Mul(&uint256.Int{u.Lo, u.Hi}, &uint256.Int{v.Lo, v.Hi})
	}
	slices.SortFunc(c.ratios, func(a, b ratio) int { return product(a.now, b.was).Cmp(product(b.now, a.was)) })
	a, b := c.ratios[(n-1)/2], c.ratios[n/2] // the same ratio if n is odd
	now := new(uint256.Int).Add(product(a.now, b.was), product(b.now, a.was)).ToBig()
	was := product(a.was, b.was).ToBig()
	if was.Lsh(was, 1); g.MaxMedianMove.exceededBy(now, was) {
		return stop(ruleMedian, c.largest(priceOf, market.PriceDecimals), "--max-median-move",
			"the median of the prices of %d assets moved by %s; more than %s", n, ratioText(now, was), g.MaxMedianMove)
	}
	return nil
}

func (g *Guards) caps(c *comparison) error {
	return c.sums(ruleCaps, g.MaxCapMove, "--max-cap-move", &c.capWas, &c.capNow, capOf)
}

func (g *Guards) volumes(c *comparison) error {
	return c.sums(ruleVolumes, g.MaxVolumeMove, "--max-volume-move", &c.volumeWas, &c.volumeNow, volumeOf)
}

func (c *comparison) sums(rule Rule, limit Move, flag string, was, now *uint256.Int, of figure) error {
	if c.assets < minSum || was.IsZero() || !limit.exceededBy(now.ToBig(), was.ToBig()) {
		return nil
	}
	text := func(u *uint256.Int) []byte { return market.AppendWide(nil, false, u, market.MoneyDecimals) }
	return stop(rule, c.largest(of, market.MoneyDecimals), flag,
		"the sum of %s of %d assets went from %s to %s, by %s; more than %s",
		rule, c.assets, text(was), text(now), ratioText(now.ToBig(), was.ToBig()), limit)
}

func (g *Guards) capsLost(c *comparison) error {
	if c.capped < minShared || !g.MaxCapLoss.exceededBy(c.uncapped, c.capped) {
		return nil
	}
	return stop(ruleCapsLost, c.capless, "--max-cap-loss",
		"of %d assets with a market cap, %d have none now; more than %s", c.capped, c.uncapped, g.MaxCapLoss)
}

func (g *Guards) renamed(c *comparison) error {
	if c.assets < minShared || !g.MaxRename.exceededBy(c.renamed, c.assets) {
		return nil
	}
	return stop(ruleRenamed, c.newNames, "--max-rename", "of %d assets, %d changed name, symbol or slug; more than %s",
		c.assets, c.renamed, g.MaxRename)
}

// now returns an asset's quote in the feed, or nil if there is none.
func (c *comparison) now(id uint64) *market.Quote {
	if at, ok := c.asset[id]; ok {
		return c.quote[at]
	}
	return nil
}

// figure returns one of the three figures of a quote.
type figure func(price, marketCap, volume market.U128) market.U128

func priceOf(price, _, _ market.U128) market.U128   { return price }
func capOf(_, marketCap, _ market.U128) market.U128 { return marketCap }
func volumeOf(_, _, volume market.U128) market.U128 { return volume }

// change describes how an asset's figure changed.
func (c *comparison) change(was *lastRow, of figure, decimals int) string {
	to := []byte("none")
	if q := c.now(was.id); q != nil {
		to = market.AppendDecimal(nil, of(q.Price, q.MarketCap, q.Volume), decimals)
	}
	return fmt.Sprintf("asset %d (%s) from %s to %s", was.id, was.slug,
		market.AppendDecimal(nil, of(was.price, was.marketCap, was.volume), decimals), to)
}

// largest describes how the figures of the largest assets changed.
func (c *comparison) largest(of figure, decimals int) (such []string) {
	for i := range c.top[:min(len(c.top), examples)] {
		such = append(such, c.change(&c.top[i], of, decimals))
	}
	return such
}

// ratioText formats newValue/oldValue for people: "×2.50", or "1/2.50" for a ratio less than 1.
func ratioText(newValue, oldValue *big.Int) string {
	switch {
	case newValue.Sign() == 0:
		return "×0"
	case newValue.Cmp(oldValue) < 0:
		return "1/" + new(big.Rat).SetFrac(oldValue, newValue).FloatString(2)
	}
	return "×" + new(big.Rat).SetFrac(newValue, oldValue).FloatString(2)
}
