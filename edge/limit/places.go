package limit

import "sync"

// Place is a kind of resource with a limited number of places. A request occupies a place while it uses
// something that other requests need too: memory, a fetch, or a connection for a long time.
type Place int

const (
	// LargeBody is for composing a large body, which may wait for the store.
	LargeBody Place = iota
	// LargeSort is for visiting many rows.
	LargeSort
	// Chunk is for fetching a chunk of a file from the store.
	Chunk
	// Download is for sending a file of several chunks, which may wait for tokens.
	Download
	kinds
)

// ofOne is the number of places of each kind that one key may occupy. It leaves places for other keys,
// however long the requests of this key wait.
var ofOne = [kinds]int{LargeBody: 16, LargeSort: 1, Chunk: 2, Download: 16}

// Places counts the places that the requests of one key occupy. The zero value is ready to use.
type Places struct {
	once sync.Once // makes the channels on first use, since most keys never need any
	held [kinds]chan struct{}
}

// Of returns a channel with a capacity of the places of a kind. A request occupies a place by sending to it.
// For a nil Places, which has no limits, Of returns nil.
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
