package limit

import "sync"

// Place is a kind of resource with a limited number of slots. A request occupies a slot while it uses
// something that other requests need too: memory, a fetch, or a long-lived connection.
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

// ofOne is the number of slots of each kind that one key may occupy. It leaves slots for other keys,
// however long this key's requests wait.
var ofOne = [kinds]int{LargeBody: 16, LargeSort: 1, Chunk: 2, Download: 16}

// Places counts the slots that one key's requests occupy. The zero value is ready to use.
type Places struct {
	once sync.Once // makes the channels on first use, since most keys never need any
	held [kinds]chan struct{}
}

// Of returns a channel whose capacity is the number of slots of this kind. A request occupies a slot by
// sending to the channel. For a nil Places, which has no limits, Of returns nil.
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
