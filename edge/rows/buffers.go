package rows

import "sync"

const (
	// OutputSize takes head and body of most answers, so they are written at once. Larger
	// bodies are written by themselves.
	OutputSize = 64 << 10
	// HeadRoom is left free for the head, before a body that is composed in the output buffer.
	HeadRoom = 4 << 10
	// LargeSize takes a page of /history: 20 assets with 367 points each, of some 45 bytes.
	LargeSize = 512 << 10
)

var (
	outputs = sync.Pool{New: func() any { return new([OutputSize]byte) }}
	larges  = sync.Pool{New: func() any { return new([LargeSize]byte) }}
)

// Buffers are the memory that one answer is composed in and written from. They come from
// pools when they are first used; Release gives them back.
type Buffers struct {
	output   *[OutputSize]byte
	large    *[LargeSize]byte
	composed bool
}

// Output returns the buffer that head and body are written from.
func (b *Buffers) Output() []byte {
	if b.output == nil {
		b.output = outputs.Get().(*[OutputSize]byte)
	}
	return b.output[:]
}

// Body returns the empty part of Output behind HeadRoom: a body that is appended there is
// written without being copied.
func (b *Buffers) Body() []byte {
	b.composed = true
	return b.Output()[HeadRoom:HeadRoom]
}

// LargeBody returns empty memory for a body that does not fit into Body.
func (b *Buffers) LargeBody() []byte {
	if b.large == nil {
		b.large = larges.Get().(*[LargeSize]byte)
	}
	return b.large[:0]
}

// Composed reports whether a body was composed in the buffers.
func (b *Buffers) Composed() bool { return b.composed }

// Reset readies the buffers for the next answer.
func (b *Buffers) Reset() { b.composed = false }

// Release gives the buffers back. What was composed in them is no longer valid.
func (b *Buffers) Release() {
	if b.output != nil {
		outputs.Put(b.output)
	}
	if b.large != nil {
		larges.Put(b.large)
	}
	*b = Buffers{composed: b.composed}
}
