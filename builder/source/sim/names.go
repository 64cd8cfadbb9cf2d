package sim

import (
	"sort"
	"strings"
)

var (
	nameStarts = [...]string{
		"Vel", "Zen", "Kor", "Lum", "Ast", "Ner", "Qu", "Bram", "Cel", "Dyn", "Ever", "Flux", "Gal", "Hel", "Ion",
		"Jun",
		"Kry", "Lyr", "Mer", "Nov", "Orb", "Pol", "Ryz", "Sol", "Tan", "Ulth", "Vor", "Wyn", "Xer", "Yot", "Zyl", "Arc",
	}
	nameEnds = [...]string{
		"ara", "atrix", "ex", "ia", "ium", "on", "ora", "is", "ys", "ent", "aro", "eno", "ico", "uma", "ax", "eth",
		"oid", "ula", "anta", "ebit", "igo", "ovo", "yra", "ell", "inu", "oge", "apad", "amesh", "erra", "yx", "ance",
		"ode",
	}
	// The marks from index plainMarks on put unexpected characters into slugs.
	nameMarks = [...]string{" 2.0", " X", " v3", ".fi", " Classic (old)", " & Friends", " (Bridged)", " - BSC"}
)

// shared are words that occur in several names. As in real directories, a few words are frequent: a
// name has 1.8 words on average, and each of the most frequent words occurs in three percent of all
// names. The probability of the word at index n is proportional to 1 / (n + 11).
var shared = newShared(strings.Fields(`
Token AI Bridged Wrapped Coin The Finance Network Protocol Staked by of Cat Inu USD on Pepe Baby Stock
Dog Base Chain DAO Money Doge Vault Old World Meme Crypto Fan Dollar Games Agent Gold Index Based Game
Ethereum Protocols Pay Moon Swap Labs Trump King Super Bull Capital Club Digital Elon Fund Global Green
Bitcoin Solana Avalanche Polygon Optimism Fantom Arbitrum Liquid Restaked Synthetic Stable Yield Reward
Share Bond Note Treasury Reserve Silver Copper Platinum Oil Carbon Energy Solar Water Land Estate House
City Island Ocean Forest River Mountain Star Sun Mars Lunar Galaxy Cosmic Space Rocket Orbit Planet Nova
Shiba Floki Frog Monkey Ape Bear Tiger Lion Wolf Fox Panda Rabbit Duck Bird Fish Whale Shark Dragon
Unicorn Phoenix Snake Turtle Penguin Hamster Goat Horse Pig Cow Chicken Bee Ant Spider Owl Eagle Art
Music Video Movie Sport Football Soccer Racing Poker Casino Bet Lottery Luck Prize Quest Guild Hero
Legend Knight Wizard Magic Sword Shield Castle Empire Kingdom Arena Battle War Peace Love Hope Dream Life
Time Power Fire Ice Storm Thunder Lightning Wind Earth Metal Stone Crystal Diamond Ruby Emerald Pearl
Cloud Data Storage Compute Node Oracle Bridge Wallet Exchange Market Trade Trading Lend Lending Credit
Bank Banking Cash Payment Card Loan Insurance Invest Asset Assets Equity Real Property Rent Travel Hotel
Food Coffee Pizza Burger Sushi Beer Wine Health Medical Fitness Education School Book News Social Chat
Friend Alpha Beta Gamma Delta Omega Sigma Zero One Two First Last Next New Neo Meta Hyper Ultra Mega
Micro Nano Pro Prime Plus Max Mini Lite Core Hub Link Net Web Site App Tech Bot Robot Machine Brain Mind
Neural Quantum Virtual Reality Cyber Crypt Block Bit Byte Code Script Open Free Fair Safe Secure Trust
Private Public Community People Human Man Woman Girl Boy Kid Mama Papa Grandma Uncle Boss Chief President
Senate Party Nation Country America China Japan Korea India Africa Europe Brazil Turkey Russia Mexico
Canada Happy Angry Lazy Crazy Funny Sad Cute Fat Tiny Big Giant Small Fast Quick Slow Hot Cold Dark Light
Black White Red Blue Yellow Orange Purple Pink Rainbow Golden Broken Lost Hidden Secret Sacred Holy Evil
Devil Angel Ghost Zombie Vampire Monster Alien Ninja Pirate Cowboy Samurai Joker Clown Doctor Captain
Master Proof Merge Mobile Monad Morpho Motion Move Moonshot Medal Melon Memo Mercury Metis Metro Merit
Drop Drift Drive Door Dot Double Donut Prism Privacy Print Price Priority Project Promise Props
`))

// sharedWords are words with their cumulative weights: up[i] is the sum of the weights of the words
// up to and including words[i].
type sharedWords struct {
	words []string
	up    []uint64
}

func newShared(words []string) *sharedWords {
	s, sum := &sharedWords{words: words}, uint64(0)
	for i := range words {
		sum += 1_000_000 / uint64(i+11)
		s.up = append(s.up, sum)
	}
	return s
}

// pick returns the word that h selects, with probabilities according to the weights.
func (s *sharedWords) pick(h hash) string {
	at := h.below(s.up[len(s.up)-1])
	return s.words[sort.Search(len(s.up), func(i int) bool { return s.up[i] > at })]
}

// oddities are names, with their symbols, of the kinds that have caused errors in programs:
// non-Latin scripts, letters that fold to others in unexpected ways (Kelvin, long s, sharp s,
// dotted and dotless i, final sigma, titlecase digraphs, Deseret), combining marks, joined emoji,
// right-to-left text, and characters that JSON, HTML or query strings escape.
var oddities = [...]struct{ name, symbol string }{
	{"龙币", "龙"}, {"柴犬金融", "柴犬"}, {"さくらコイン", "さくら"}, {"東京トークン", "東京"}, {"김치코인", "김치"},
	{"Рубльчик", "РУБ"}, {"Снежинка", "Снег"}, {"Ёлка", "ЁЛК"}, {"Δραχμή", "ΔΡΧ"}, {"Οδυσσεύς", "ΟΔΣ"},
	{"Σίσυφος", "σισ"},
	{"\u212aelvin Network", "\u212aLV"}, {"Kelvin Network", "KLV"}, {"\u017filver Standard", "\u017fLV"},
	{"Straße", "STRAßE"},
	{"GRO\u1e9eE MÜNZE", "GRO\u1e9e"}, {"\u0130stanbul Coin", "\u0130ST"}, {"\u0131sı Token", "\u0131sı"},
	{"\u212bngström", "\u212bNG"},
	{"Ångström", "ÅNG"}, {"\u2126mega", "\u2126"}, {"Ωmega", "Ω"}, {"\u00b5Coin", "\u00b5C"}, {"\u03bcCoin", "\u03bcC"},
	{"\u01c5ungla", "\u01c5"},
	{"\U00010400eseret", "\U00010400"}, {"𝕸athcoin", "𝕸"}, {"🚀", "🚀"}, {"🐕 Inu", "🐕"}, {"Pepper 🐸 Classic", "🐸"},
	{"👩\u200d🚀 Astro", "👩\u200d🚀"}, {"Café", "CAFÉ"}, {"Cafe\u0301", "CAFE\u0301"}, {"دينار رقمي", "دينار"},
	{"שקל", "שקל"}, {"ไทยบาท", "บาท"}, {"रुपया", "रु"},
	{`The "Real" Coin`, `"REAL"`}, {`Back\slash`, `B\S`}, {"Salt & Pepper", "S&P"}, {"<b>Bold</b>", "<B>"},
	{"Line\u2028Separator", "L\u2028S"},
	{"100% Luck", "100%"}, {"$Dollar", "$D"}, {"Comma, Inc.", "A,B"}, {"Plus + Minus", "+1"}, {"Why?", "?"},
	{"Semi;colon", "S;C"},
	{"Two  Spaces", "2 SP"}, {"1move token", "1MT"}, {"[old] Bridge", "[OLD]"},
	// The feed reader warns about the following names. Only dirty markets have them.
	{" Leading Space", " LEAD"}, {"Tab\tStop", "T\tS"},
}

// dirtyOddities is the number of oddities that the feed reader warns about. They come last.
const dirtyOddities = 2

// popular are tickers that many assets share. They become less frequent from the first to the last.
var popular = [...]string{
	"AI", "CAT", "DOG", "MOON", "KING", "GOLD", "STAR", "BABY", "PUMP", "SKY", "SUN", "FROG", "MASK", "BULL", "ROCKET",
	"SAFE",
	"ONE", "META", "LUCK", "PIZZA", "SHARK", "TOKEN", "WOLF", "SWAP", "GAME", "PLAY", "LION", "TIGER", "PEACE", "ALPHA",
	"OMEGA", "BETA",
	"GEM", "ICE", "FIRE", "KISS", "SASS", "BANK", "CASH", "COIN", "MEME", "NFT", "DAO", "APE", "BEAR", "DUCK", "FISH",
	"BIRD",
	"TREE", "ROSE", "LOVE", "HOPE", "LIFE", "TIME", "MARS", "NOVA", "ZERO", "INFINITY", "X", "Y", "Z", "USD", "EUR",
	"YEN",
}

var (
	// categoryNames are the names of the first categories. Other names consist of an adjective and
	// a noun.
	categoryNames = [...]string{
		"Stablecoins", "Layer 1 (L1)", "Layer 2 (L2)", "Meme", "AI & Big Data", "Real World Assets (RWA)",
		"Zero Knowledge (ZK)", "Décentralisé",
		"DeFi", "NFT & Gaming", "Privacy", "人工智能", "Мемкоины", "Σύμβολα", "\u212a-Pop", "Q&A + Polls", "<Unsorted>",
		"50% Club", `"Quoted"`, "🐶 Dogs",
	}
	categoryAdjectives = [...]string{
		"Liquid", "Staked", "Wrapped", "Bridged", "Social", "Green", "Modular", "Yield", "Synthetic", "Fan", "Solar",
		"Lunar", "Arctic", "Urban", "Index", "Gold-Backed",
		"Mobile", "Quantum", "Carbon", "Music",
	}
	categoryNouns = [...]string{
		"Tokens", "Ecosystem", "Derivatives", "Launchpad", "Payments", "Storage", "Oracles", "Lending", "Insurance",
		"Identity", "Games", "Sports", "Education", "Health", "Energy", "Portfolio",
	}
)

// explorers are parts of the host names of block explorers.
var explorers = [...]string{"ether", "polygon", "base", "arb", "solar", "tron"}

// The tails from index plainTails on put unexpected characters into slugs.
var exchangeTails = [...]string{" Exchange", " Exchange", " DEX", " Pro", " Markets", "", " Swap V3 (BSC)", " & Co"}

const plainMarks, plainTails = 4, 6

var chainTails = [...]string{"", "", " Chain", " Network", " (Layer 2)", " & Sons Chain"}

var dollars = [...]string{" USD", " Dollar", " Cash"}

// pick returns one of the given words, all with the same probability.
func (h hash) pick(words []string) string { return words[h.below(uint64(len(words)))] }

// coin returns a name that consists of two syllables.
func coin(h hash) string { return h.with(1).pick(nameStarts[:]) + h.with(2).pick(nameEnds[:]) }

// title returns a name of one to four words. The first word is invented in 60 percent of all names,
// and shared in the others. Further words are shared. Ten percent of the names end with one of the
// given marks.
func title(h hash, marks []string) string {
	name := coin(h)
	if !h.with(0).percent(60) {
		name = shared.pick(h.with(3))
	}
	more := uint64(0)
	for n := h.with(4).below(100); more < 3 && n >= [...]uint64{45, 82, 96}[more]; more++ {
		name += " " + shared.pick(h.with(5).with(more))
	}
	if h.with(6).percent(10) {
		name += h.with(7).pick(marks)
	}
	return name
}

// names returns an asset's name and symbol. Four percent of the assets, all of them small, have an
// odd name and symbol. Of the others, fifteen percent have a popular symbol, a few of them in a
// different form that folds to the same text. The rest have a symbol that is made from the name.
// The symbol of an invented asset that is pegged to the dollar contains USD.
func (a *asset) names() (name, symbol string) {
	if r := a.real(); r != nil {
		return r.name, r.symbol
	}
	h := a.hash.with(ofName)
	switch {
	case a.stable():
		name = coin(h)
		if h.percent(25) {
			return "USD " + name, "USD" + name[:1]
		}
		return name + h.with(3).pick(dollars[:]), strings.ToUpper(name[:1+h.with(4).below(2)]) + "USD"
	case a.small && h.percent(4*4):
		n := len(oddities)
		if !a.dirty {
			n -= dirtyOddities
		}
		o := &oddities[h.with(0).below(uint64(n))]
		return o.name, o.symbol
	}
	marks := nameMarks[:]
	if !a.small {
		marks = marks[:plainMarks]
	}
	name = title(h, marks)
	h = a.hash.with(ofSymbol)
	if !h.percent(15) {
		return name, ticker(name, h)
	}
	n := uint64(len(popular))
	// Choose a number from 1 to n three times, with the result as the next n, so that the first
	// symbols are the most frequent.
	for i := range uint64(3) {
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

// ticker makes a symbol from a name. It takes the first three to five letters, or all if there are
// fewer, of one of these: the name, its first letter and consonants, or the initials of its first
// words followed by the last word.
func ticker(name string, h hash) string {
	letters := strings.FieldsFunc(strings.ToUpper(name), func(c rune) bool { return c < 'A' || c > 'Z' })
	all := strings.Join(letters, "")
	switch kind := h.with(2).below(10); {
	case kind < 3 && len(letters) > 1:
		all = ""
		for _, word := range letters[:len(letters)-1] {
			all += word[:1]
		}
		all += letters[len(letters)-1]
	case kind < 7:
		rest := strings.Map(func(c rune) rune {
			if strings.ContainsRune("AEIOUY", c) {
				return -1
			}
			return c
		}, all[1:])
		if len(rest) > 1 {
			all = all[:1] + rest
		}
	}
	return all[:min(len(all), 3+int(h.with(3).below(3)))]
}

// slug returns the asset's slug. The slug of an invented asset ends in a hyphen and the asset's
// tag, so that it is unique.
func (a *asset) slug(name string) string {
	if r := a.real(); r != nil {
		return r.slug
	}
	h := a.hash.with(ofSlug)
	s := slug(name)
	if a.small && h.with(0).percent(4*2) {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	switch n := h.with(1).below(100 / 4); {
	case !a.small:
	case n == 0:
		s += "-(old)"
	case n == 1:
		s += "-&-friends"
	case n == 2:
		s += " "
	}
	return s + "-" + a.tag()
}

// slug converts a name to a slug: it writes ASCII letters in lower case, replaces spaces with
// hyphens, and drops characters that JSON escapes. It keeps other characters, so slugs are not safe
// for URLs.
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
