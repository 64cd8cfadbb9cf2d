package sim

import (
	"sort"
	"strconv"
)

// words are a name in one to three pieces, to be written without a buffer of
// their own: "Vel", "arix", " Protocol".
type words [3]string

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

// popularSums are the running sums of the popular tickers' weights.
var popularSums = func() (sums [len(popular)]uint64) {
	total := uint64(0)
	for i := range sums {
		total += 1_000_000 / uint64(i+1)
		sums[i] = total
	}
	return sums
}()

// explorers are the block explorers' host names.
var explorers = [...]string{"ether", "polygon", "base", "arb", "solar", "tron"}

// oddity returns the asset's odd name and symbol; four of a hundred have one.
func (a *asset) oddity() (name, symbol string, ok bool) {
	h := a.hash.with(ofName)
	if !h.percent(4) {
		return "", "", false
	}
	o := &oddities[h.with(0).below(uint64(len(oddities)))]
	return o.name, o.symbol, true
}

func (a *asset) name() words {
	if name, _, ok := a.oddity(); ok {
		return words{name}
	}
	return coin(a.hash.with(ofName))
}

// coin returns a name made up of syllables.
func coin(h hash) words {
	return words{
		nameStarts[h.with(1).below(uint64(len(nameStarts)))],
		nameEnds[h.with(2).below(uint64(len(nameEnds)))],
		nameTails[h.with(3).below(uint64(len(nameTails)))],
	}
}

// appendSymbol appends the asset's symbol as a JSON string: an odd one, one of
// the popular (fifteen of a hundred assets, three of a hundred of these in
// another spelling that folds to the same), or a few letters.
func (a *asset) appendSymbol(b []byte, name words) []byte {
	if _, symbol, ok := a.oddity(); ok {
		return words{symbol}.appendJSON(b)
	}
	h := a.hash.with(ofSymbol)
	b = append(b, '"')
	if h.percent(15) {
		pick := h.with(0).below(popularSums[len(popular)-1])
		symbol := popular[sort.Search(len(popular)-1, func(i int) bool { return pick < popularSums[i] })]
		spelling := h.with(1).below(100)
		for _, c := range []byte(symbol) {
			switch {
			case spelling == 0:
				b = append(b, c|0x20) // lower case
			case spelling == 1 && c == 'K':
				b = append(b, "\u212a"...) // Kelvin sign
			case spelling == 2 && c == 'S':
				b = append(b, "\u017f"...) // long s
			default:
				b = append(b, c)
			}
		}
		return append(b, '"')
	}
	b = append(b, name[0][0])
	for i := range 2 + h.with(2).below(4) {
		b = append(b, 'A'+byte(h.with(3).with(i).below(26)))
	}
	return append(b, '"')
}

// appendSlug appends the asset's slug as a JSON string. It ends in a hyphen and
// the asset's tag, and so is its own.
func (a *asset) appendSlug(b []byte, name words) []byte {
	h := a.hash.with(ofSlug)
	b = append(b, '"')
	b = name.appendSlug(b, h.with(0).percent(2))
	switch h.with(1).below(100) {
	case 0:
		b = append(b, "-(old)"...)
	case 1:
		b = append(b, "-&-friends"...)
	case 2:
		b = append(b, " "...)
	}
	b = append(b, '-')
	b = a.appendTag(b)
	return append(b, '"')
}

// appendSlug appends the words as slugs have them: letters in lower case,
// unless keepCase, hyphens for spaces, and without what would have to be
// escaped. Other characters stay; slugs are not safe for URLs.
func (w words) appendSlug(b []byte, keepCase bool) []byte {
	for _, s := range w {
		for _, c := range []byte(s) {
			switch {
			case c == ' ':
				b = append(b, '-')
			case 'A' <= c && c <= 'Z' && !keepCase:
				b = append(b, c|0x20)
			case c < ' ' || c == '"' || c == '\\':
			default:
				b = append(b, c)
			}
		}
	}
	return b
}

// appendJSON appends the words as one JSON string.
func (w words) appendJSON(b []byte) []byte {
	b = append(b, '"')
	for _, s := range w {
		for _, c := range []byte(s) {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < ' ':
				b = append(b, `\u00`...)
				b = append(b, "01"[c>>4], "0123456789abcdef"[c&15])
			default:
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

// first returns the first word of a name.
func (w words) first() words {
	if w[2] != "" {
		return words{w[0], w[1]}
	}
	return w
}

// appendNumbered appends prefix and i as a JSON string.
func appendNumbered(b []byte, prefix string, i int) []byte {
	b = append(b, '"')
	b = append(b, prefix...)
	b = strconv.AppendInt(b, int64(i), 10)
	return append(b, '"')
}
