package rows

import "example.com/marketdata/edge/limit"

// shared are the semaphores that all requests share. A key may hold only some places of each.
var shared = [...]chan struct{}{
	// Requests that hold memory for a large body while they wait for shards or to be encoded.
	// One that finds no place waits, and is unavailable when its time is up. A place is free
	// again when the body is complete: bytes that a peer is slow to take are charged to its
	// address.
	limit.LargeBody: make(chan struct{}, 64),
	// Requests that sort many rows at once, and hold the memory for it.
	limit.LargeSort: make(chan struct{}, 2),
}

// enter takes a place, first one of the key's own: a request that waits for that holds none that
// others could use. leavePlace gives it back.
func (f *Finder) enter(kind limit.Place) error {
	own := f.Places.Of(kind)
	if own != nil {
		if err := f.Budget.Enter(own); err != nil {
			return err
		}
	}
	err := f.Budget.Enter(shared[kind])
	if err != nil && own != nil {
		<-own
	}
	return err
}

func (f *Finder) leavePlace(kind limit.Place) {
	<-shared[kind]
	if own := f.Places.Of(kind); own != nil {
		<-own
	}
}
