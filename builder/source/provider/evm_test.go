package provider_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

func TestWellKnownChains(t *testing.T) {
	for platform, want := range map[string]provider.EVMChain{
		"ethereum": {1, "Ethereum", "ethereum"}, "base": {8453, "Base", "ethereum"}, "fraxtal": {252, "Fraxtal", ""},
	} {
		if c, ok := provider.CoinGeckoChains[platform]; !ok || c != want {
			t.Errorf("coingecko %s: %+v", platform, c)
		}
	}
	for platform, want := range map[string]provider.EVMChain{
		"eth-ethereum": {1, "Ethereum", "eth-ethereum"}, "arb-arbitrum": {42161, "Arbitrum One", "eth-ethereum"},
		"pol-polygon-ecosystem-token": {137, "Polygon", ""},
	} {
		if c, ok := provider.CoinPaprikaChains[platform]; !ok || c != want {
			t.Errorf("coinpaprika %s: %+v", platform, c)
		}
	}
	for _, platform := range []string{"", "-", "solana", "sol-solana"} {
		_, gecko := provider.CoinGeckoChains[platform]
		_, paprika := provider.CoinPaprikaChains[platform]
		if gecko || paprika {
			t.Errorf("%q is well known", platform)
		}
	}
}

// TestWellKnownChainsAgainstTheList compares the table with the public list of EVM chains and with
// a recorded feed of CoinGecko.
func TestWellKnownChainsAgainstTheList(t *testing.T) {
	b := must.Get(os.ReadFile(providertest.Recorded(t, "recorded/evm-chains.json")))(t)
	var list []struct {
		Name    string `json:"name"`
		ChainID uint64 `json:"chainId"`
	}
	ok(t, json.Unmarshal(b, &list))
	names := map[uint64]string{}
	for _, c := range list {
		names[c.ChainID] = c.Name
	}
	chains := must.Get(os.ReadFile(filepath.Join(providertest.Recorded(t, "coingecko-2025"), "chains.ndjson")))(t)
	compared := 0
	for line := range strings.Lines(string(chains)) {
		var c struct {
			Key        string  `json:"key"`
			EVMChainID *uint64 `json:"evm_chain_id"`
		}
		ok(t, json.Unmarshal([]byte(line), &c))
		known, ok := provider.CoinGeckoChains[c.Key]
		if !ok {
			if c.EVMChainID != nil {
				t.Errorf("%s (%d) is not in the table", c.Key, *c.EVMChainID)
			}
			continue
		}
		compared++
		if names[known.ID] == "" {
			t.Errorf("%s: chain %d is unknown", c.Key, known.ID)
		}
		if c.EVMChainID != nil && *c.EVMChainID != known.ID {
			t.Errorf("%s: %d, recorded %d", c.Key, known.ID, *c.EVMChainID)
		}
	}
	if compared < 60 {
		t.Errorf("only %d chains compared", compared)
	}
}
