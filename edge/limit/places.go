package limit

import "sync"

// Place is a kind of places of which a request holds one while it takes what others need too:
// memory, a fetch, a connection for long.
type Place int

const (
	// LargeBody is for putting together a large body, which may wait for the store.
	LargeBody Place = iota
	// LargeSort is for going through many rows.
	LargeSort
	// Chunk is for fetching a chunk of a file from the store.
	Chunk
	// Download is for a file of several chunks, which may wait for tokens.
	Download
	kinds
)

// ofOne is how many places of each kind one key may hold: of those that all share, others
// find some free, however long its requests wait.
var ofOne = [kinds]int{LargeBody: 16, LargeSort: 1, Chunk: 2, Download: 16}

// Places bounds how many places the requests of one key hold. The zero value holds none.
type Places struct {
	once sync.Once // most keys never need any
	held [kinds]chan struct{}
}

// Of returns a channel that takes a value for each place of a kind that may be held; nil
// for a nil Places, which has no bounds.
func (p *Places) Of(kind Place) chan struct{} {
	if p == nil {
		return nil
	}
	p.once.Do(func() {
		for kind, n := range ofOne {
			p.held[kind] = make(chan struct{}, n)
		}
	})
	return p.held[kind]
}
