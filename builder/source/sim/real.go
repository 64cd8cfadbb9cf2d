package sim

import (
	_ "embed"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// real describes one of the largest assets, which are real and well known.
type real struct {
	slug, symbol, name string
	digits             uint64 // the initial price is digits × 10^exp dollars
	exp                int
	supplies           [3]uint64 // circulating, total and maximum supply; 0 if there is none
	contracts          map[string]string
	like               int // the place of the asset whose price it follows, or -1
}

//go:embed real.tsv
var realText string

// reals are the largest assets, by place.
var reals = readReals(realText)

// settled is the number of real assets, which are the largest. They never change places and always
// have quotes, so that no guard rail stops a build of a simulated market.
var settled = len(reals)

func readReals(text string) (all []real) {
	for line := range strings.Lines(text) {
		if line[0] == '#' {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		r := real{slug: f[0], symbol: f[1], name: f[2], like: -1}
		switch r.slug {
		case "wrapped-bitcoin":
			r.like = 0
		case "staked-ether":
			r.like = 1
		}
		whole, fraction, _ := strings.Cut(f[3], ".")
		r.digits, r.exp = wholeNumber(whole+fraction), -len(fraction)
		for r.digits < 10_000_000 { // enough digits, so that small moves of the walk show
			r.digits, r.exp = r.digits*10, r.exp-1
		}
		for i := range r.supplies {
			if text := f[4+i]; text != "-" {
				r.supplies[i] = wholeNumber(text)
			}
		}
		if f[7] != "-" {
			r.contracts = map[string]string{}
			for contract := range strings.FieldsSeq(f[7]) {
				chain, address, _ := strings.Cut(contract, "=")
				r.contracts[chain] = address
			}
		}
		all = append(all, r)
	}
	return all
}

func wholeNumber(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("real.tsv: %v", err))
	}
	return n
}

// cap returns the initial market cap, in cents.
func (r *real) cap() uint64 {
	hi, lo := bits.Mul64(r.supplies[0], r.digits)
	for exp := r.exp + 2; exp < 0; exp++ {
		var rest uint64
		hi, rest = hi/10, hi%10
		lo, _ = bits.Div64(rest, lo, 10)
	}
	if hi > 0 {
		panic("real.tsv: a market cap is too large")
	}
	return lo
}

// pegged reports whether the asset is pegged to the dollar.
func (r *real) pegged() bool { return r.cap() == r.supplies[0]*100 }

// realChain is one of the first chains, which are real ones.
type realChain struct {
	slug, name, evm string
	home            int // the place of its native coin
}

// realChains are the first chains.
var realChains = [...]realChain{
	{"ethereum", "Ethereum", "1", 1}, {"binance-smart-chain", "BNB Smart Chain", "56", 4}, {"solana", "Solana", "", 5},
	{"polygon-pos", "Polygon POS", "137", 48}, {"arbitrum-one", "Arbitrum One", "42161", 1},
	{"optimistic-ethereum", "Optimism", "10", 1}, {"base", "Base", "8453", 1}, {"avalanche", "Avalanche", "43114", 17},
	{"tron", "TRON", "", 9},
}
