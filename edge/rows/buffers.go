package rows

import "sync"

const (
	// OutputSize is large enough for the head and body of most answers, so that one write sends both. Larger
	// bodies are written separately.
	OutputSize = 64 << 10
	// HeadRoom is the space for the head, before a body that is composed in the output buffer.
	HeadRoom = 4 << 10
	// LargeSize is enough for a page of /history: 20 assets with 367 points of about 45 bytes each.
	LargeSize = 512 << 10
)

var (
	outputs = sync.Pool{New: func() any { return new([OutputSize]byte) }}
	larges  = sync.Pool{New: func() any { return new([LargeSize]byte) }}
)

// Buffers provides the memory for composing and writing an answer. It takes buffers from pools when they are
// first used. Release returns them.
type Buffers struct {
	output   *[OutputSize]byte
	large    *[LargeSize]byte
	composed bool
}

// Output returns the buffer from which the head and body are written.
func (b *Buffers) Output() []byte {
	if b.output == nil {
		b.output = outputs.Get().(*[OutputSize]byte)
	}
	return b.output[:]
}

// Body returns the part of Output after HeadRoom, with length 0. A body that is appended to it is written
// without another copy.
func (b *Buffers) Body() []byte {
	b.composed = true
	return b.Output()[HeadRoom:HeadRoom]
}

// LargeBody returns a buffer of length 0 for a body that does not fit into Body.
func (b *Buffers) LargeBody() []byte {
	if b.large == nil {
		b.large = larges.Get().(*[LargeSize]byte)
	}
	return b.large[:0]
}

// Composed reports whether a body was composed in the buffers.
func (b *Buffers) Composed() bool { return b.composed }

// Reset prepares the Buffers for the next answer.
func (b *Buffers) Reset() { b.composed = false }

// Release returns the buffers to the pools. A body in them becomes invalid.
func (b *Buffers) Release() {
	if b.output != nil {
		outputs.Put(b.output)
	}
	if b.large != nil {
		larges.Put(b.large)
	}
	*b = Buffers{composed: b.composed}
}
