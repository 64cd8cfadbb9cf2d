package sim

import "strconv"

// maxMembers bounds a group's members in the feed, so that its line stays
// below the 1 MiB that a line may have: a member takes up to 17 bytes.
const maxMembers = 60_000

// groupSize returns how many members group i has, of a market whose largest has
// share members: a Zipf-like tail.
func groupSize(h hash, i, share int) int {
	return min(maxMembers, share/(i+1)+int(h.with(ofMembers).with(0).below(5)))
}

// appendMembers appends n members, those in distinct slots. Three of a hundred
// groups have a member twice, three have one that nobody knows.
func (m *moment) appendMembers(b []byte, h hash, n int) []byte {
	h = h.with(ofMembers)
	n = min(n, m.assets)
	at := h.with(1).below(uint64(m.assets))
	step := h.with(2).below(uint64(m.assets))
	// Steps without a common divisor with the number of slots pass through all.
	for gcd(step, uint64(m.assets)) != 1 {
		step++
	}
	b = append(b, `,"members":[`...)
	for i := range n {
		a := m.asset(int(at))
		if i > 0 {
			b = append(b, ',')
		}
		b = a.appendKey(b)
		if i == 0 && h.with(3).percent(3) {
			b = append(b, ',')
			b = a.appendKey(b)
		}
		at = (at + step) % uint64(m.assets)
	}
	if n > 0 && h.with(4).percent(3) {
		b = append(b, `,"sim-unknown"`...)
	}
	return append(b, ']')
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// steady groups, the first of each collection, are always active with members.
const steady = 4

// appendStatus appends a group's status. Of a hundred groups five are disabled,
// four deleted, and six are disabled now and then, for hours.
func (m *moment) appendStatus(b []byte, h hash, i int) []byte {
	h = h.with(ofStatus)
	status := "active"
	switch kind := h.below(100); {
	case i < steady:
	case kind < 5:
		status = "disabled"
	case kind < 9:
		status = "deleted"
	case kind < 15 && h.with(2).with(uint64(m.turn(h, 2*hour, 20*hour))).percent(40):
		status = "disabled"
	}
	b = append(b, `,"status":"`...)
	b = append(b, status...)
	return append(b, '"')
}

var (
	// categoryNames are the first categories; the others are made of an
	// adjective and a noun.
	categoryNames = [...]string{
		"Stablecoins", "Layer 1 (L1)", "Layer 2 (L2)", "Meme", "AI & Big Data", "Real World Assets (RWA)", "Zero Knowledge (ZK)", "Décentralisé",
		"DeFi", "NFT & Gaming", "Privacy", "人工智能", "Мемкоины", "Σύμβολα", "\u212a-Pop", "Q&A + Polls", "<Unsorted>", "50% Club", `"Quoted"`, "🐶 Dogs",
	}
	categoryAdjectives = [...]string{
		"Liquid", "Staked", "Wrapped", "Bridged", "Social", "Green", "Modular", "Yield", "Synthetic", "Fan", "Solar", "Lunar", "Arctic", "Urban", "Index", "Gold-Backed",
		"Mobile", "Quantum", "Carbon", "Music",
	}
	categoryNouns = [...]string{
		"Tokens", "Ecosystem", "Derivatives", "Launchpad", "Payments", "Storage", "Oracles", "Lending", "Insurance", "Identity", "Games", "Sports", "Education", "Health", "Energy", "Portfolio",
	}
)

func categoryName(i int) words {
	if i < len(categoryNames) {
		return words{categoryNames[i]}
	}
	i -= len(categoryNames)
	n := len(categoryAdjectives)
	return words{categoryAdjectives[i%n], " ", categoryNouns[i/n]}
}

func (m *moment) categoryRow(b []byte, i int) []byte {
	h := m.seed.with(ofCategory).with(uint64(i))
	name := categoryName(i)
	b = append(b, `{"key":`...)
	b = appendNumbered(b, "sim-category-", i)
	b = append(b, `,"name":`...)
	b = name.appendJSON(b)
	b = append(b, `,"slug":"`...)
	b = name.appendSlug(b, false)
	b = append(b, '"')
	b = m.appendStatus(b, h, i)
	b = m.appendGroupMembers(b, h, i, m.assets/3)
	return append(b, "}\n"...)
}

// appendGroupMembers appends a group's members; five groups of a hundred have
// none.
func (m *moment) appendGroupMembers(b []byte, h hash, i, share int) []byte {
	n := groupSize(h, i, share)
	if i < steady {
		n = max(n, 1)
	} else if h.with(ofKind).percent(5) {
		n = 0
	}
	return m.appendMembers(b, h, n)
}

var chainTails = [...]string{"", "", " Chain", " Network", " (Layer 2)", " & Sons Chain"}

// evmChains are the ids of the first chains, where they have one.
var evmChains = [...]uint64{1, 56, 0, 137, 42161, 10, 8453, 43114}

func (m *moment) chainRow(b []byte, i int) []byte {
	h := m.seed.with(ofChain).with(uint64(i))
	name := coin(h.with(ofName))
	name[2] = chainTails[h.with(ofName).with(5).below(uint64(len(chainTails)))]
	b = append(b, `{"key":`...)
	b = appendNumbered(b, "sim-chain-", i)
	b = append(b, `,"name":`...)
	b = name.appendJSON(b)
	b = append(b, `,"slug":"`...)
	b = name.appendSlug(b, false)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(i), 36)
	b = append(b, '"')
	if h.with(ofName).with(4).percent(50) {
		b = append(b, `,"display_name":`...)
		b = name.first().appendJSON(b)
	}
	id := h.with(ofKind).with(1)
	switch kind := id.below(100); {
	case i < len(evmChains):
		if evmChains[i] != 0 {
			b = append(b, `,"evm_chain_id":`...)
			b = strconv.AppendUint(b, evmChains[i], 10)
		}
	case kind < 60:
		b = append(b, `,"evm_chain_id":`...)
		b = strconv.AppendUint(b, id.with(0).below(1_000_000), 10)
	case kind < 63:
		b = append(b, `,"evm_chain_id":9007199254740991`...)
	case kind < 80:
		b = append(b, `,"evm_chain_id":null`...)
	}
	native := h.with(ofNative)
	switch kind := native.below(100); {
	case i < steady || kind < 70:
		b = append(b, `,"native":`...)
		a := m.asset((i*3 + int(native.with(0).below(3))) % m.assets)
		b = a.appendKey(b)
	case kind < 77:
		b = append(b, `,"native":"sim-unknown"`...)
	case kind < 88:
		b = append(b, `,"native":null`...)
	}
	b = m.appendStatus(b, h, i)
	b = m.appendGroupMembers(b, h, i, m.assets/2)
	return append(b, "}\n"...)
}
