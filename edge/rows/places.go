package rows

import "example.com/marketdata/edge/limit"

// shared are the places that all requests share. A key may hold only some of each kind.
var shared = [...]chan struct{}{
	// Requests that wait for shards, or for others to be coded, and have memory for a large
	// body; who finds no place waits, and gets a 503 when its time is up. A place is free
	// again when the body is there: what peers are slow to take is charged to their addresses.
	limit.LargeBody: make(chan struct{}, 64),
	// Requests that sort many rows at once, and so have the memory for it.
	limit.LargeSort: make(chan struct{}, 2),
}

// enter takes a place, first one of the key's own, so that who waits for that keeps none
// from others. leavePlace gives it back.
func (f *Finder) enter(kind limit.Place) error {
	own := f.Bill.Places().Of(kind)
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
	if own := f.Bill.Places().Of(kind); own != nil {
		<-own
	}
}
