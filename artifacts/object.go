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

	// MaxObjectSize is the maximum stored size of any object, in bytes.
	MaxObjectSize = 16 << 20
	// maxIndexPlain and maxShardPlain are the maximum expanded sizes of an index and of a shard.
	maxIndexPlain = 1 << 20
	maxShardPlain = 64 << 20
)

// Constants of the zstd format.
const (
	blockHeader  = 3
	blockRLE     = 1
	checksumSize = 4
)

// ErrCorrupt reports bytes that do not match their name or their index.
var ErrCorrupt = errors.New("corrupt")

// ErrFormat reports a format that is newer than this release reads, or a missing format.
var ErrFormat = errors.New("unknown format")

// Index lists the shards of an object.
type Index struct {
	Shards []IndexEntry `json:"shards"`
}

// IndexEntry describes one shard of an object.
type IndexEntry struct {
	// Offset is relative to the end of the index.
	Offset int64 `json:"offset"`
	// Stored and Plain are the compressed and the expanded size of the shard, in bytes.
	Stored int64 `json:"stored"`
	Plain  int64 `json:"plain"`
	// Rows is the number of rows.
	Rows int `json:"rows"`
	// First is the fence of the first row.
	First Fence `json:"first"`
}

// Fence is the sort key of the first row of a shard or object: the row's id in a view sorted by id,
// its folded text in a view with keys, and empty in any other view.
type Fence struct {
	ID  uint64 `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// EncodeAll and DecodeAll are stateless and safe for concurrent use, so one encoder and one decoder
// are enough. Equal rows must produce equal bytes, so the compression level must not change;
// builder/README.md, "Costs", explains the choice.
var (
	zstdEncoder, _ = zstd.NewWriter(
		nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true))
	zstdDecoder, _ = zstd.NewReader(
		nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxShardPlain))
)

// Compress appends src to dst as one zstd frame, which states its plain length and has a content
// checksum. src must not be empty.
func Compress(dst, src []byte) []byte { return zstdEncoder.EncodeAll(src, dst) }

// Decompress expands a frame that Compress has written. length must be exactly the plain length
// that the frame states.
func Decompress(frame []byte, length int64) ([]byte, error) {
	n, err := plainLength(frame)
	if err != nil {
		return nil, err
	}
	if n != length {
		return nil, fmt.Errorf("%w: frame expands to %d bytes, want %d", ErrCorrupt, n, length)
	}
	return expand(frame, n)
}

// DecompressBounded is Decompress for a plain length that is not known but must be at most limit.
func DecompressBounded(frame []byte, limit int64) ([]byte, error) {
	n, err := plainLength(frame)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("%w: frame expands to %d bytes, want at most %d", ErrCorrupt, n, limit)
	}
	return expand(frame, n)
}

func expand(frame []byte, plain int64) ([]byte, error) {
	out, err := zstdDecoder.DecodeAll(frame, make([]byte, 0, plain))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if int64(len(out)) != plain {
		return nil, fmt.Errorf("%w: frame expands to %d bytes, want %d", ErrCorrupt, len(out), plain)
	}
	return out, nil
}

// plainLength returns the plain length that the frame states. It rejects two things that the
// decoder accepts: a frame without a checksum, since one flipped bit in the header turns a frame
// with a checksum into one without, and further frames after the first (RFC 8878, section 3.1.1).
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
			size = 1 // A block of this type stores one byte, which is repeated.
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

// Object collects the index and the frames of a view's object.
type Object struct {
	Index  Index
	frames []byte
}

// Add compresses the plain form of one shard and appends it.
func (o *Object) Add(plain []byte, rows int, first Fence) {
	at := len(o.frames)
	o.frames = Compress(o.frames, plain)
	o.Index.Shards = append(o.Index.Shards, IndexEntry{
		Offset: int64(at), Stored: int64(len(o.frames) - at), Plain: int64(len(plain)), Rows: rows, First: first,
	})
}

// Reset empties the object and keeps its memory for reuse.
func (o *Object) Reset() { o.Index.Shards, o.frames = o.Index.Shards[:0], o.frames[:0] }

// Bytes returns the stored form of the object.
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

// IndexSize returns the length of the index, including the 8 bytes before it, from the first 8
// bytes of an object.
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

// ParseIndex parses the index in prefix, which contains the first IndexSize bytes of an object, and
// checks it against size, the length of the whole object.
func ParseIndex(prefix []byte, size int64) (*Index, error) {
	n, err := IndexSize(prefix)
	if err != nil {
		return nil, err
	}
	if n != int64(len(prefix)) || n > size {
		return nil, fmt.Errorf("%w: index of %d bytes in %d", ErrCorrupt, n, len(prefix))
	}
	plain, err := DecompressBounded(prefix[8:], maxIndexPlain)
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

// ParseObject parses all shards of an object.
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

// ParseEntry expands, checks and parses one shard.
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
				return nil, fmt.Errorf("%w: the id of row %d is out of order", ErrCorrupt, i)
			}
		}
	}
	return s, nil
}
