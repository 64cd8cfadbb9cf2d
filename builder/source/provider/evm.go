package provider

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// EVMChain is a well-known EVM chain. It supplements a provider's own data.
type EVMChain struct {
	// ID is the chain id (EIP-155).
	ID   uint64
	Name string
	// Native is the provider's key of the chain's native coin, or "" if it is unknown.
	Native string
}

//go:embed evm.tsv
var evmTable string

// The well-known EVM chains, by each provider's platform ids.
var (
	CoinGeckoChains   = parseEVM(evmTable, 2)
	CoinPaprikaChains = parseEVM(evmTable, 4)
)

// EVMChainByID finds a well-known EVM chain by its chain id. The result has no native coin.
func EVMChainByID(id string) (EVMChain, bool) {
	for _, chains := range []map[string]EVMChain{CoinGeckoChains, CoinPaprikaChains} {
		for _, c := range chains {
			if strconv.FormatUint(c.ID, 10) == id {
				return EVMChain{ID: c.ID, Name: c.Name}, true
			}
		}
	}
	return EVMChain{}, false
}

// parseEVM parses the table. column is the index of the column with a provider's platform ids; the
// next column has the keys of the native coins. parseEVM panics on an error, since the table is
// part of the program.
func parseEVM(table string, column int) map[string]EVMChain {
	chains := map[string]EVMChain{}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 6 {
			panic(fmt.Sprintf("BUG: evm.tsv: %d fields in %q", len(fields), line))
		}
		id, err := strconv.ParseUint(fields[0], 10, 53)
		if err != nil {
			panic(fmt.Sprintf("BUG: evm.tsv: %v", err))
		}
		c := EVMChain{ID: id, Name: fields[1], Native: strings.TrimPrefix(fields[column+1], "-")}
		for platform := range strings.SplitSeq(fields[column], ",") {
			if _, twice := chains[platform]; twice {
				panic(fmt.Sprintf("BUG: evm.tsv: platform %q twice", platform))
			}
			if platform != "-" {
				chains[platform] = c
			}
		}
	}
	return chains
}
