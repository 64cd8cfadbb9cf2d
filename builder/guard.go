package builder

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"github.com/holiman/uint256"
)

// Errors of a build that publishes nothing because of what it was asked to
// publish. They come wrapped, with the particulars.
var (
	// ErrGuard: a guard rail (FEED.md, "Guard rails") stops the build;
	// --force overrides.
	ErrGuard = errors.New("guard rail")
	// ErrOlder: T is older than the published snapshot.
	ErrOlder = errors.New("older than the published snapshot")
	// ErrOther: T is published already, from other rows or settings.
	ErrOther = errors.New("published already, from other rows or settings")
	// ErrTakenBack: a rollback took T back (INTERFACE.md, "Pinned paging").
	ErrTakenBack = errors.New("taken back by a rollback; want a later time")
)

// Share is a part of a whole, in millionths: 0 to 1,000,000.
type Share int64

const shareWhole = 1_000_000

// parseShare reads a share as a decimal from 0 to 1 ("0.05") or as a
// percentage ("5%").
func parseShare(s string) (Share, error) {
	number, percent := strings.CutSuffix(s, "%")
	r, ok := new(big.Rat).SetString(number)
	if !ok || len(s) > 20 || strings.ContainsAny(number, "/eEpPxX_") {
		return 0, fmt.Errorf("share %.40q: want a number from 0 to 1, or a percentage such as 5%%", s)
	}
	r.Mul(r, big.NewRat(shareWhole, 1))
	if percent {
		r.Quo(r, big.NewRat(100, 1))
	}
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if r.Sign() < 0 || r.Cmp(big.NewRat(shareWhole, 1)) > 0 {
		return 0, fmt.Errorf("share %.40q: want a number from 0 to 1, or a percentage such as 5%%", s)
	}
	return Share(n.Int64()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler with parseShare.
func (s *Share) UnmarshalText(b []byte) (err error) {
	*s, err = parseShare(string(b))
	return err
}

// String returns the share as a percentage.
func (s Share) String() string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", s/10_000, s%10_000), "0"), ".") + "%"
}

// exceeds reports whether part is more than the share of whole.
func (s Share) exceeds(part, whole int) bool {
	return int64(part)*shareWhole > int64(s)*int64(whole)
}

// Guards are the guard rails of FEED.md, "Guard rails".
type Guards struct {
	// MaxBadRows is the part of a file's rows that may be set aside; ten rows
	// may in any case.
	MaxBadRows Share
	// MaxShrink is the part of its accepted rows that a collection may lose
	// against the last snapshot.
	MaxShrink Share
	// MaxMove is the part of the hundred largest assets that may move by
	// moveFactor or lose their price within a day.
	MaxMove Share
	// Force overrides the three.
	Force bool
}

// DefaultGuards are the limits of FEED.md, "Guard rails".
var DefaultGuards = Guards{MaxBadRows: shareWhole / 20, MaxShrink: shareWhole / 2, MaxMove: shareWhole / 5}

// minBadRows is how many rows of a file may be set aside in any case.
const minBadRows = 10

// moveFactor is what a price must change by, up or down, to have moved.
const moveFactor = 5

// moveAge is how young the last snapshot must be for moves against it to count.
const moveAge = 24 * time.Hour

// collections of a feed, in the order of reports.
var collections = []string{"assets", "quotes", "exchanges", "categories", "chains"}

// counts are the accepted rows of a feed by collection.
func counts(f *market.Feed) map[string]int {
	return map[string]int{
		"assets": len(f.Assets), "quotes": len(f.Quotes), "exchanges": len(f.Exchanges),
		"categories": len(f.Categories), "chains": len(f.Chains),
	}
}

// checkBadRows looks at the rows of each file that were set aside.
func (g *Guards) checkBadRows(r *source.Report) error {
	for _, f := range r.Files {
		if f.Rejected > minBadRows && g.MaxBadRows.exceeds(f.Rejected, f.Rows) {
			return fmt.Errorf("%w: %s: %d of %d rows set aside, more than %s; the first: %v (--max-bad-rows)", ErrGuard, f.Name, f.Rejected, f.Rows, g.MaxBadRows, f.Rejections[0])
		}
	}
	return nil
}

// checkShrink compares accepted rows with the last snapshot's.
func (g *Guards) checkShrink(last *artifacts.Manifest, now map[string]int) error {
	for _, c := range collections {
		if lost := last.Counts[c] - now[c]; lost > 0 && g.MaxShrink.exceeds(lost, last.Counts[c]) {
			return fmt.Errorf("%w: %s went from %d accepted rows to %d; more than %s lost (--max-shrink)",
				ErrGuard, c, last.Counts[c], now[c], g.MaxShrink)
		}
	}
	return nil
}

// checkMove compares the prices of the last snapshot's largest assets.
func (g *Guards) checkMove(last, t time.Time, top []ledger.TopPrice, f *market.Feed) error {
	if len(top) == 0 || t.Sub(last) >= moveAge {
		return nil
	}
	prices := make(map[uint64]*market.U128, len(top))
	for _, p := range top {
		prices[p.ID] = nil
	}
	for q := range f.Quotes {
		if id := f.Assets[f.Quotes[q].Asset].ID; hasKey(prices, id) {
			prices[id] = &f.Quotes[q].Price
		}
	}
	moved, example := 0, ""
	for _, p := range top {
		was, err := uint256.FromDecimal(p.Price)
		if err != nil {
			return fmt.Errorf("ledger: price of asset %d: %w", p.ID, err)
		}
		now := prices[p.ID]
		if now != nil && !farFrom(was, now) {
			continue
		}
		moved++
		if example == "" {
			to := "none"
			if now != nil {
				to = string(market.AppendDecimal(nil, *now, market.PriceDecimals))
			}
			example = fmt.Sprintf("asset %d from %s to %s", p.ID, market.AppendWide(nil, false, was, market.PriceDecimals), to)
		}
	}
	if g.MaxMove.exceeds(moved, len(top)) {
		return fmt.Errorf("%w: of the %d largest assets, %d moved by a factor of %d or lost their price (%s, for one); more than %s (--max-move)",
			ErrGuard, len(top), moved, moveFactor, example, g.MaxMove)
	}
	return nil
}

func hasKey[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}

// farFrom reports whether two prices are a factor of moveFactor apart.
func farFrom(was *uint256.Int, now *market.U128) bool {
	n := uint256.Int{now.Lo, now.Hi}
	if was.Eq(&n) {
		return false // both zero, too
	}
	factor := uint256.NewInt(moveFactor)
	var up, down uint256.Int
	up.Mul(was, factor)
	down.Mul(&n, factor)
	return n.Cmp(&up) >= 0 || was.Cmp(&down) >= 0
}
