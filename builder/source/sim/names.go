package sim

import "strings"

var (
	nameStarts = [...]string{
		"Vel", "Zen", "Kor", "Lum", "Ast", "Ner", "Qu", "Bram", "Cel", "Dyn", "Ever", "Flux", "Gal", "Hel", "Ion", "Jun",
		"Kry", "Lyr", "Mer", "Nov", "Orb", "Pol", "Ryz", "Sol", "Tan", "Ulth", "Vor", "Wyn", "Xer", "Yot", "Zyl", "Arc",
	}
	nameEnds = [...]string{
		"ara", "atrix", "ex", "ia", "ium", "on", "ora", "is", "ys", "ent", "aro", "eno", "ico", "uma", "ax", "eth",
		"oid", "ula", "anta", "ebit", "igo", "ovo", "yra", "ell", "inu", "oge", "apad", "amesh", "erra", "yx", "ance", "ode",
	}
	nameTails = [...]string{
		"", "", "", "", "", "", "", "", " Protocol", " Network", " Finance", " Coin", " Token", " DAO", " Swap", " AI",
		" Inu", " Chain", " Pay", " Gold", " Labs", " Games", " World", " Cash", " 2.0", " Classic", " (old)", " & Friends", " X", " USD", " Staked", " Wrapped",
	}
)

// oddities are names with their symbols that have been found hard: other
// scripts, letters that fold to others or not as one may think (Kelvin, long s,
// sharp s, dotted and dotless i, final sigma, titlecase digraphs, Deseret),
// combining marks, joined emoji, right-to-left text, what JSON and HTML escape,
// and what a query string must encode.
var oddities = [...]struct{ name, symbol string }{
	{"龙币", "龙"}, {"柴犬金融", "柴犬"}, {"さくらコイン", "さくら"}, {"東京トークン", "東京"}, {"김치코인", "김치"},
	{"Рубльчик", "РУБ"}, {"Снежинка", "Снег"}, {"Ёлка", "ЁЛК"}, {"Δραχμή", "ΔΡΧ"}, {"Οδυσσεύς", "ΟΔΣ"}, {"Σίσυφος", "σισ"},
	{"\u212aelvin Network", "\u212aLV"}, {"Kelvin Network", "KLV"}, {"\u017filver Standard", "\u017fLV"}, {"Straße", "STRAßE"},
	{"GRO\u1e9eE MÜNZE", "GRO\u1e9e"}, {"\u0130stanbul Coin", "\u0130ST"}, {"\u0131sı Token", "\u0131sı"}, {"\u212bngström", "\u212bNG"},
	{"Ångström", "ÅNG"}, {"\u2126mega", "\u2126"}, {"Ωmega", "Ω"}, {"\u00b5Coin", "\u00b5C"}, {"\u03bcCoin", "\u03bcC"}, {"\u01c5ungla", "\u01c5"},
	{"\U00010400eseret", "\U00010400"}, {"𝕸athcoin", "𝕸"}, {"🚀", "🚀"}, {"🐕 Inu", "🐕"}, {"Pepper 🐸 Classic", "🐸"},
	{"👩\u200d🚀 Astro", "👩\u200d🚀"}, {"Café", "CAFÉ"}, {"Cafe\u0301", "CAFE\u0301"}, {"دينار رقمي", "دينار"}, {"שקל", "שקל"}, {"ไทยบาท", "บาท"}, {"रुपया", "रु"},
	{`The "Real" Coin`, `"REAL"`}, {`Back\slash`, `B\S`}, {"Salt & Pepper", "S&P"}, {"<b>Bold</b>", "<B>"}, {"Line\u2028Separator", "L\u2028S"},
	{"100% Luck", "100%"}, {"$Dollar", "$D"}, {"Comma, Inc.", "A,B"}, {"Plus + Minus", "+1"}, {"Why?", "?"}, {"Semi;colon", "S;C"},
	{"Two  Spaces", "2 SP"}, {" Leading Space", " LEAD"}, {"1move token", "1MT"}, {"[old] Bridge", "[OLD]"}, {"Tab\tStop", "T\tS"},
}

// popular are tickers that many assets share, each one half, a third, … as
// often as the first.
var popular = [...]string{
	"AI", "CAT", "DOG", "MOON", "KING", "GOLD", "STAR", "BABY", "PUMP", "SKY", "SUN", "FROG", "MASK", "BULL", "ROCKET", "SAFE",
	"ONE", "META", "LUCK", "PIZZA", "SHARK", "TOKEN", "WOLF", "SWAP", "GAME", "PLAY", "LION", "TIGER", "PEACE", "ALPHA", "OMEGA", "BETA",
	"GEM", "ICE", "FIRE", "KISS", "SASS", "BANK", "CASH", "COIN", "MEME", "NFT", "DAO", "APE", "BEAR", "DUCK", "FISH", "BIRD",
	"TREE", "ROSE", "LOVE", "HOPE", "LIFE", "TIME", "MARS", "NOVA", "ZERO", "INFINITY", "X", "Y", "Z", "USD", "EUR", "YEN",
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

// explorers are the block explorers' host names.
var explorers = [...]string{"ether", "polygon", "base", "arb", "solar", "tron"}

var exchangeTails = [...]string{" Exchange", " Exchange", " DEX", " Swap V3 (BSC)", " Pro", " Markets", " & Co", ""}

var chainTails = [...]string{"", "", " Chain", " Network", " (Layer 2)", " & Sons Chain"}

// pick returns one of words.
func (h hash) pick(words []string) string { return words[h.below(uint64(len(words)))] }

// coin returns a name made up of syllables.
func coin(h hash) string { return h.with(1).pick(nameStarts[:]) + h.with(2).pick(nameEnds[:]) }

// names returns an asset's name and symbol. Four of a hundred assets have odd
// ones; of the others fifteen of a hundred have a popular symbol, three of a
// hundred of these in another spelling that folds to the same.
func (a *asset) names() (name, symbol string) {
	h := a.hash.with(ofName)
	if h.percent(4) {
		o := &oddities[h.with(0).below(uint64(len(oddities)))]
		return o.name, o.symbol
	}
	name = coin(h) + h.with(3).pick(nameTails[:])
	h = a.hash.with(ofSymbol)
	if h.percent(15) {
		n := uint64(len(popular))
		for i := range uint64(3) { // each time one of the first n: a fifth end at the first
			n = 1 + h.with(0).with(i).below(n)
		}
		symbol = popular[n-1]
		switch h.with(1).below(100) {
		case 0:
			symbol = strings.ToLower(symbol)
		case 1:
			symbol = strings.ReplaceAll(symbol, "K", "\u212a") // Kelvin sign
		case 2:
			symbol = strings.ReplaceAll(symbol, "S", "\u017f") // long s
		}
		return name, symbol
	}
	letters := []byte{name[0]}
	for i := range 2 + h.with(2).below(4) {
		letters = append(letters, 'A'+byte(h.with(3).with(i).below(26)))
	}
	return name, string(letters)
}

// slug returns the asset's slug. It ends in a hyphen and the asset's tag, and so
// is its own.
func (a *asset) slug(name string) string {
	h := a.hash.with(ofSlug)
	s := slug(name)
	if h.with(0).percent(2) {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	switch h.with(1).below(100) {
	case 0:
		s += "-(old)"
	case 1:
		s += "-&-friends"
	case 2:
		s += " "
	}
	return s + "-" + a.tag()
}

// slug returns a name as slugs have it: ASCII letters in lower case, hyphens for
// spaces, and nothing that JSON escapes. Other characters stay; slugs are not
// safe for URLs.
func slug(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case 'A' <= c && c <= 'Z':
			return c | 0x20
		case c < ' ' || c == '"' || c == '\\':
			return -1
		}
		return c
	}, name)
}
