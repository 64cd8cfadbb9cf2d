package artifacts

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"example.com/marketdata/internal/redact"
	"github.com/klauspost/compress/zstd"
)

const (
	objectMagic = "MDV1"

	// MaxObjectSize bounds the stored length of any object, in bytes.
	MaxObjectSize = 16 << 20
	// maxIndexPlain and maxShardPlain bound what one frame may expand to.
	maxIndexPlain = 1 << 20
	maxShardPlain = 64 << 20
)

// Of a zstd frame.
const (
	blockHeader  = 3
	blockRLE     = 1
	checksumSize = 4
)

// ErrCorrupt: the bytes are not what their name or their index promises.
var ErrCorrupt = errors.New("corrupt")

// ErrFormat: a newer format than this release reads, or none at all.
var ErrFormat = errors.New("unknown format")

// Index says where the shards of an object stand.
type Index struct {
	Shards []IndexEntry `json:"shards"`
}

// IndexEntry describes one shard of an object.
type IndexEntry struct {
	// Offset counts from the end of the index.
	Offset int64 `json:"offset"`
	// Stored and Plain are the shard's lengths in bytes, compressed and not.
	Stored int64 `json:"stored"`
	Plain  int64 `json:"plain"`
	// Rows is the number of rows.
	Rows int `json:"rows"`
	// First is the fence: the first row's key.
	First Fence `json:"first"`
}

// Fence is the sort key of a first row: its id in a view sorted by id, its
// folded text in a view with keys, and nothing in any other.
type Fence struct {
	ID  uint64 `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// One encoder and decoder serve all: EncodeAll and DecodeAll are stateless and
// safe for concurrent use. The level is part of the format's determinism (same
// rows, same bytes); builder/README.md, "Costs", says why this one.
var (
	zstdEncoder, _ = zstd.NewWriter(
		nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true))
	zstdDecoder, _ = zstd.NewReader(
		nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxShardPlain))
)

// Compress appends src, which must not be empty, to dst as one zstd frame that
// states its plain length and has a content checksum.
func Compress(dst, src []byte) []byte { return zstdEncoder.EncodeAll(src, dst) }

// Decompress expands frame, which must be what Compress writes: one frame that
// states its plain length, here exactly plain, and has a content checksum.
func Decompress(frame []byte, plain int64) ([]byte, error) {
	n, err := plainLength(frame)
	if err != nil {
		return nil, err
	}
	if n != plain {
		return nil, fmt.Errorf("%w: frame of %d bytes plain, want %d", ErrCorrupt, n, plain)
	}
	return expand(frame, n)
}

// DecompressBounded is Decompress where the plain length is not known but must be at most limit.
func DecompressBounded(frame []byte, limit int64) ([]byte, error) {
	n, err := plainLength(frame)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("%w: frame of %d bytes plain, at most %d are expanded", ErrCorrupt, n, limit)
	}
	return expand(frame, n)
}

func expand(frame []byte, plain int64) ([]byte, error) {
	out, err := zstdDecoder.DecodeAll(frame, make([]byte, 0, plain))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if int64(len(out)) != plain {
		return nil, fmt.Errorf("%w: %d bytes plain, want %d", ErrCorrupt, len(out), plain)
	}
	return out, nil
}

// plainLength returns the plain length that frame states. It refuses what the decoder would take: a
// frame without a checksum, which a flipped bit of the header makes of one with it, and other
// frames behind the first (RFC 8878, section 3.1.1).
func plainLength(frame []byte) (int64, error) {
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return 0, fmt.Errorf("%w: frame header: %w", ErrCorrupt, err)
	}
	if h.Skippable || !h.HasCheckSum || !h.HasFCS || h.FrameContentSize > maxShardPlain {
		return 0, fmt.Errorf(
			"%w: frame without checksum or plain length, or of more than %d bytes plain", ErrCorrupt, maxShardPlain)
	}
	rest := frame[h.HeaderSize:]
	for last := false; !last; {
		if len(rest) < blockHeader {
			return 0, fmt.Errorf("%w: frame ends too early", ErrCorrupt)
		}
		b := int(rest[0]) | int(rest[1])<<8 | int(rest[2])<<16
		last = b&1 == 1
		size := b >> 3
		if b>>1&3 == blockRLE {
			size = 1 // the byte that is repeated
		}
		if len(rest) < blockHeader+size {
			return 0, fmt.Errorf("%w: frame ends too early", ErrCorrupt)
		}
		rest = rest[blockHeader+size:]
	}
	if len(rest) != checksumSize {
		return 0, fmt.Errorf(
			"%w: frame has %d bytes behind its last block, want the checksum's %d", ErrCorrupt, len(rest), checksumSize)
	}
	return int64(h.FrameContentSize), nil
}

// Object is a view's object before it is put together: its index and frames.
type Object struct {
	Index  Index
	frames []byte
}

// Add compresses one shard's plain form and adds it.
func (o *Object) Add(plain []byte, rows int, first Fence) {
	at := len(o.frames)
	o.frames = Compress(o.frames, plain)
	o.Index.Shards = append(o.Index.Shards, IndexEntry{
		Offset: int64(at), Stored: int64(len(o.frames) - at), Plain: int64(len(plain)), Rows: rows, First: first,
	})
}

// Reset makes the object empty again. It keeps its memory.
func (o *Object) Reset() { o.Index.Shards, o.frames = o.Index.Shards[:0], o.frames[:0] }

// Bytes returns the object as it is stored.
func (o *Object) Bytes() []byte {
	index, err := json.Marshal(o.Index)
	if err != nil {
		panic("BUG: index of an object: " + err.Error())
	}
	out := make([]byte, 8, 8+len(index)/2+len(o.frames))
	copy(out, objectMagic)
	out = Compress(out, index)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return append(out, o.frames...)
}

// IndexSize reads an object's first 8 bytes and returns how long its index is,
// those 8 bytes included.
func IndexSize(start []byte) (int64, error) {
	if len(start) < 8 || string(start[:3]) != objectMagic[:3] {
		return 0, fmt.Errorf("%w: not an object of a view", ErrCorrupt)
	}
	if start[3] != objectMagic[3] {
		return 0, fmt.Errorf("%w: object version %q", ErrFormat, start[3])
	}
	n := int64(binary.LittleEndian.Uint32(start[4:]))
	if n > maxIndexPlain {
		return 0, fmt.Errorf("%w: an index of %d bytes", ErrCorrupt, n)
	}
	return 8 + n, nil
}

// ParseIndex reads the index from start, the object's first IndexSize bytes,
// and checks it against the object's whole length.
func ParseIndex(start []byte, size int64) (*Index, error) {
	n, err := IndexSize(start)
	if err != nil {
		return nil, err
	}
	if n != int64(len(start)) || n > size {
		return nil, fmt.Errorf("%w: index of %d bytes in %d", ErrCorrupt, n, len(start))
	}
	plain, err := DecompressBounded(start[8:], maxIndexPlain)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var x Index
	if err := json.Unmarshal(plain, &x); err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrCorrupt, redact.Error(err))
	}
	at := int64(0)
	for i, e := range x.Shards {
		if e.Offset != at || e.Stored <= 0 || e.Stored > size-n-at || e.Plain <= 0 || e.Plain > maxShardPlain ||
			e.Rows < 1 || e.Rows > maxShardRows {
			return nil, fmt.Errorf("%w: index entry %d", ErrCorrupt, i)
		}
		at += e.Stored
	}
	if n+at != size {
		return nil, fmt.Errorf("%w: object of %d bytes, its index says %d", ErrCorrupt, size, n+at)
	}
	return &x, nil
}

// ParseObject reads all shards of an object.
func ParseObject(b []byte) ([]*Shard, error) {
	_, shards, err := parseObject(b)
	return shards, err
}

func parseObject(b []byte) (*Index, []*Shard, error) {
	n, err := IndexSize(b)
	if err != nil {
		return nil, nil, err
	}
	if n > int64(len(b)) {
		return nil, nil, fmt.Errorf("%w: index of %d bytes in %d", ErrCorrupt, n, len(b))
	}
	x, err := ParseIndex(b[:n], int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	shards := make([]*Shard, len(x.Shards))
	for i, e := range x.Shards {
		at := n + e.Offset
		if shards[i], err = ParseEntry(e, b[at:at+e.Stored]); err != nil {
			return nil, nil, fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return x, shards, nil
}

// ParseEntry expands and checks one shard from its frame.
func ParseEntry(e IndexEntry, frame []byte) (*Shard, error) {
	if int64(len(frame)) != e.Stored {
		return nil, fmt.Errorf("%w: frame of %d bytes, want %d", ErrCorrupt, len(frame), e.Stored)
	}
	plain, err := Decompress(frame, e.Plain)
	if err != nil {
		return nil, err
	}
	s, err := parseShard(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if s.Len() != e.Rows {
		return nil, fmt.Errorf("%w: shard of %d rows, want %d", ErrCorrupt, s.Len(), e.Rows)
	}
	if string(s.Key(0)) != e.First.Key {
		return nil, fmt.Errorf("%w: shard begins at %q, want %q", ErrCorrupt, s.Key(0), e.First.Key)
	}
	if e.First.ID != 0 {
		if s.ID(0) != e.First.ID {
			return nil, fmt.Errorf("%w: shard begins at id %d, want %d", ErrCorrupt, s.ID(0), e.First.ID)
		}
		for i := 1; i < s.Len(); i++ {
			if s.ID(i-1) >= s.ID(i) {
				return nil, fmt.Errorf("%w: id of row %d does not follow", ErrCorrupt, i)
			}
		}
	}
	return s, nil
}
