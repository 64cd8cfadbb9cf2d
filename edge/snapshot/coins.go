package snapshot

import "example.com/marketdata/artifacts"

// CoinView is a view that only package coingecko uses. Each is the only view of its collection.
type CoinView int

// The views, in the order of coinViewNames.
const (
	Coins CoinView = iota
	Contracts
	Platforms
	Figures
	Rates
	Leaders

	coinViews = iota
)

type coinViewName struct{ collection, sort string }

var coinViewNames = [coinViews]coinViewName{
	{artifacts.CoinsCollection, "id"}, {artifacts.ContractsCollection, artifacts.ContractsSort},
	{artifacts.PlatformsCollection, "id"}, {artifacts.FiguresCollection, "id"}, {artifacts.RatesCollection, "id"},
	{artifacts.LeadersCollection, "id"},
}

// CoinView returns a view, or nil if the snapshot's builder did not produce it or Config.Coins is false.
func (s *Snapshot) CoinView(v CoinView) *View { return s.coins[v] }

func (s *Snapshot) addCoins(m *artifacts.Manifest) {
	for i, name := range coinViewNames {
		if v := m.View(name.collection, name.sort); v != nil {
			s.coins[i] = s.newView(m, v)
			s.objects = append(s.objects, s.coins[i].objects...)
		}
	}
}
