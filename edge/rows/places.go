package rows

import "example.com/marketdata/edge/limit"

// shared contains semaphores that all requests share. One key's requests may occupy only some of the slots.
var shared = [...]chan struct{}{
	// Requests that occupy memory for a large body while they wait for shards or for compression. A request that
	// gets no slot in time fails with an error that wraps shards.ErrUnavailable. The slot is free again as soon
	// as the body is complete. Bytes that a slow client has not read yet count toward the limit of its address,
	// not here.
	limit.LargeBody: make(chan struct{}, 64),
	// Requests that sort many rows, and occupy memory for sorting.
	limit.LargeSort: make(chan struct{}, 2),
}

// enter takes a slot. It first takes one of the key's own slots, so a request that waits for such a slot
// occupies no shared one. The caller must call leavePlace afterwards.
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
