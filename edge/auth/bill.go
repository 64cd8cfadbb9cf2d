package auth

import "example.com/marketdata/edge/limit"

const (
	// bodyBytes is how much of an answer of /history is composed and encoded for one token. A
	// full page of a year, some 300 KB, takes 4 to 5 ms: without a charge one key with the
	// default limit would keep half a core busy with such pages; with it, a key gets four in
	// three seconds, 0.6 % of a core, and the p99 of others stays free of them. At 16 KiB it
	// was 1.2 %.
	bodyBytes = 8 << 10
	// searchRows is how many rows a search visits for one token. Where each asset has to be
	// looked up, a row takes a good half of a microsecond, so the default limit pays for 4 %
	// of a core at most; usually it is a tenth of that.
	searchRows = 500
	// fileBytes is how much of a file is read for one token: to read, check and send a chunk of
	// 1 MiB takes as long as a few pages.
	fileBytes = 256 << 10
)

// Bill is what one request costs its key (INTERFACE.md, "Rate limits"): a token when the
// request is admitted, and more for a large or expensive answer. The zero value charges
// nobody. A Bill is for one goroutine at a time.
type Bill struct {
	// Key is charged; nil: nobody is.
	Key *Key
	// Left is what the last charge left of the limit that the request counts under.
	Left limit.Decision
	// Ahead and Visited count the rows that a search announced, and visited.
	Ahead, Visited int

	tokens int   // taken for rows
	now    int64 // of the request, as limit.At gives it
}

// Take takes the token of the request itself from key at time now, and reports whether
// there was one. The key pays for what follows, too.
func (b *Bill) Take(key *Key, now int64) bool {
	if b.Left = key.Take(now); !b.Left.OK {
		return false
	}
	b.Key, b.now = key, now
	return true
}

// GiveBack returns the token of the request, and ends the bill. What was charged for rows
// and bytes stays charged.
func (b *Bill) GiveBack() {
	if b.Key != nil {
		b.Key.GiveBack(b.now)
		b.Key = nil
	}
}

// Bytes charges for bytes that are composed and encoded. It is called before a body is
// encoded, so on a busy edge a key has no more encoded than its bucket held: three full
// pages of a year with the default limit.
func (b *Bill) Bytes(n int) {
	if tokens := n / bodyBytes; tokens > 0 && b.Key != nil {
		b.Left = b.Key.Charge(b.Left, b.now, tokens)
	}
}

// Read charges for bytes of a file that are about to be read, of which the token of the request
// pays the first 256 KiB, and reports whether they may be.
func (b *Bill) Read(n int64) bool {
	if tokens := int((n - 1) / fileBytes); tokens > 0 && b.Key != nil {
		b.Left = b.Key.Spend(b.Left, b.now, tokens)
		return b.Left.OK
	}
	return true
}

// Visit charges for rows that a search is about to visit, and reports whether it may.
// Charging first limits what a key has visited on a busy edge to what its bucket held, and
// one search more.
func (b *Bill) Visit(rows int) bool {
	b.Ahead += rows
	n := b.Ahead/searchRows - b.tokens
	if b.Key == nil || n <= 0 {
		return true
	}
	if b.Left = b.Key.Spend(b.Left, b.now, n); b.Left.OK {
		b.tokens += n
	}
	return b.Left.OK
}

// Settle corrects the charge after a search visited rows, also when it failed.
func (b *Bill) Settle(rows int) {
	b.Visited += rows
	b.Ahead = b.Visited
	n := b.Visited/searchRows - b.tokens
	if b.Key == nil || n == 0 {
		return
	}
	b.tokens += n
	if left := b.Key.Settle(b.Left, b.now, n); b.Left.OK { // else Left says what was refused
		b.Left = left
	}
}

// Places bounds the places that the key's requests hold; nil: nothing does.
func (b *Bill) Places() *limit.Places {
	if b.Key == nil {
		return nil
	}
	return b.Key.Places
}
