package limit

import (
	"runtime"
	"sync"
)

// What may be at work at once in an edge, beside what the operator sets. edge/README.md, "Bounds", says what
// each protects.
const (
	// Fetches are the objects of snapshots that are fetched from the store; as many again are for what
	// requests wait for. HistoryFetches are those of history among the former.
	Fetches        = 8
	HistoryFetches = 2
	// Loads are the shards that are expanded and parsed.
	Loads = 16
	// Probes are the questions about one cell to a store that does not answer: as many as begin until the
	// first of them is given up, and some, so that a fresh one asks a store that hangs all the while.
	Probes = 24
	// Waiting are the requests that wait for a pinned snapshot to arrive; one more is told at once to come
	// later. It is several times what a key with the default limit can have waiting.
	Waiting = 1024
	// Refusals are the connections that are refused with an answer; others are closed without one.
	Refusals = 64
	// AdminConns are the connections of the admin listener, Scrapes those of its requests that are for
	// metrics.
	AdminConns = 256
	Scrapes    = 4
	// StreamsOfKey and PinnedOfKey are the streams of events and the pinned requests of one key.
	StreamsOfKey = 8
	PinnedOfKey  = 128
)

// Place is a kind of places of which a request holds one while it takes what others need too:
// memory, a core, a fetch, a connection for long.
type Place int

const (
	// LargeBody is for putting together a large body, which may wait for the store. It is free again when
	// the body is complete.
	LargeBody Place = iota
	// LargeSort is for going through many rows, and holding the memory for it.
	LargeSort
	// LargeCoding is for encoding a large body, which keeps a core busy for some milliseconds.
	LargeCoding
	// Collection is for an answer with a whole collection, which may take tens of megabytes.
	Collection
	// Chunk is for fetching a chunk of a file from the store.
	Chunk
	// Download is for a file of several chunks, which may wait for tokens.
	Download
	kinds
)

// places is how many places of each kind there are: for the requests of one key, so that others find some
// free, however long its requests wait; and for all. 0: any number.
var places = [kinds]struct{ ofKey, ofAll int }{
	LargeBody:   {16, 64},
	LargeSort:   {1, 2},
	LargeCoding: {0, max(1, runtime.GOMAXPROCS(0)/2)},
	Collection:  {0, 1},
	Chunk:       {2, Fetches / 2},
	Download:    {16, 0},
}

// Places are the places that the requests of one key hold. The zero value holds none.
type Places struct {
	once sync.Once // most keys never need any
	held [kinds]chan struct{}
}

// Of returns a channel that takes a value for each place of a kind that may be held; nil where there are
// any number, also of a nil Places.
func (p *Places) Of(kind Place) chan struct{} {
	if p == nil {
		return nil
	}
	p.once.Do(func() {
		for kind, n := range places {
			if n.ofKey > 0 {
				p.held[kind] = make(chan struct{}, n.ofKey)
			}
		}
	})
	return p.held[kind]
}

var ofAll = func() (held [kinds]chan struct{}) {
	for kind, n := range places {
		if n.ofAll > 0 {
			held[kind] = make(chan struct{}, n.ofAll)
		}
	}
	return held
}()

// OfAll is Of for the requests of all keys together.
func OfAll(kind Place) chan struct{} { return ofAll[kind] }

// Enter takes a place of a kind, first one of the key's own: a request that waits for that holds none that
// others could use. Leave gives it back. wait sends to a channel, or returns why it does not.
func (p *Places) Enter(kind Place, wait func(chan struct{}) error) error {
	own, all := p.Of(kind), ofAll[kind]
	if own != nil {
		if err := wait(own); err != nil {
			return err
		}
	}
	if all == nil {
		return nil
	}
	err := wait(all)
	if err != nil && own != nil {
		<-own
	}
	return err
}

// Leave gives back a place of Enter.
func (p *Places) Leave(kind Place) {
	if all := ofAll[kind]; all != nil {
		<-all
	}
	if own := p.Of(kind); own != nil {
		<-own
	}
}
