package artifacts

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/marketdata/internal/test/must"
)

var fuzzTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fuzzManifest returns a manifest with a little of everything.
func fuzzManifest() *Manifest {
	d := Sum([]byte("x"))
	object := ViewObject{Ref: Ref{d, 100}, Rows: 3, First: Fence{ID: 5}}
	return &Manifest{
		Format: Format, Time: fuzzTime, Database: "db", Unicode: "15.0.0", Input: d,
		Counts:       map[string]int{"assets": 3},
		RowsPerShard: 2, ShardsPerObject: 4,
		Views: []View{
			{Collection: "assets", Sort: "id", Rows: 3, Runs: 3, Columns: []string{"id", "name"},
				Objects: []ViewObject{object}},
			{Collection: "assets", Sort: "name", Rows: 3, Runs: 2, Columns: []string{"id"},
				Objects: []ViewObject{{Ref: Ref{d, 9}, Rows: 3, First: Fence{Key: "a"}}}},
		},
		Global: Global{"1.5", "0", 2}, Retained: []Retained{{fuzzTime.Add(-Step), Ref{d, 7}}},
		Withdrawn: []time.Time{fuzzTime.Add(Step)}, WithdrawnThrough: fuzzTime.Add(2 * Step), Ledger: Ref{d, 8},
	}
}

// seeds adds variants of one cell: whole, signed, damaged and in other formats.
func seeds(f *testing.F, whole []byte) {
	f.Add(whole)
	f.Add([]byte(strings.Replace(string(whole), `"format":1`, `"format":2`, 1)))
	f.Add([]byte(strings.Replace(string(whole), `"format":1`, `"format":-1,"FORMAT":1`, 1)))
	f.Add([]byte(strings.ReplaceAll(string(whole), "Z\"", "+23:59\"")))
	f.Add([]byte(strings.ReplaceAll(string(whole), "2026", "9999")))
	f.Add(append(bytes.Clone(whole), signatureStart...))
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("null"))
	f.Add([]byte(strings.Repeat("[", 20_000)))
}

// parsed checks the properties of every parser: an error is either ErrFormat or ErrCorrupt, and a
// parsed value survives encoding and parsing unchanged.
func parsed[T interface{ Encode() []byte }](t *testing.T, b []byte, parse func([]byte) (T, error)) (v T, ok bool) {
	v, err := parse(b)
	if err != nil {
		if !reflect.ValueOf(v).IsNil() || errors.Is(err, ErrFormat) == errors.Is(err, ErrCorrupt) {
			t.Fatalf("%.200q: %v, and %+v", b, err, v)
		}
		return v, false
	}
	again, err := parse(v.Encode())
	if err != nil || !reflect.DeepEqual(v, again) {
		t.Fatalf("%.200q: %+v is read back as %+v, %v", b, v, again, err)
	}
	return v, true
}

func FuzzParsePointer(f *testing.F) {
	seeds(f, testPointer().Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parsed(t, b, ParsePointer); ok && (p.Sequence == 0 || len(p.Store) != 32 ||
			!p.Time.Equal(p.Time.Truncate(Step)) || p.Time.Location() != time.UTC) {
			t.Fatalf("%+v", p)
		}
	})
}

func FuzzParseChange(f *testing.F) {
	seeds(f, (&Change{Format: Format, Database: "db", Time: fuzzTime, Snapshot: fuzzTime,
		Base: fuzzTime.Add(-24 * time.Hour), Value: "-1.25"}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		// Answers contain the value unchanged.
		if c, ok := parsed(t, b, ParseChange); ok && strings.Trim(c.Value, "-.0123456789") != "" {
			t.Fatalf("the value is %q", c.Value)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	seeds(f, fuzzManifest().Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parsed(t, b, ParseManifest)
		if !ok {
			return
		}
		for i := range m.Views {
			v := &m.Views[i]
			rows := 0
			for _, o := range v.Objects {
				rows += o.Rows
			}
			if rows != v.Rows || v.Runs > v.Rows || v.Last > v.Rows || m.View(v.Collection, v.Sort) != v {
				t.Fatalf("view %+v", v)
			}
		}
	})
}

// fuzzShard returns the plain form of a shard with four rows in three runs that has every part that
// a shard can have.
func fuzzShard() []byte {
	var rows, tails [][]byte
	for _, id := range []string{"4", "7", "9", "2"} {
		rows = append(rows, []byte(`{"id":`+id+`,"name":"n"}`))
		tails = append(tails, []byte(`,"links":{"x":"`+id+`"}}`))
	}
	return AppendShard(nil, &ShardRows{
		Before: 1, After: 2, FirstRun: 3, RunLens: []int{1, 2, 1},
		Keys: [][]byte{[]byte("a"), []byte("b"), []byte("c")},
		Ords: [][]uint32{{1, 2, 3, 0}, {9, 9, 9, 9}}, Rows: rows, Tails: tails,
	})
}

// rowsOf reads everything in a shard through its methods.
func rowsOf(t *testing.T, s *Shard) *ShardRows {
	t.Helper()
	in := &ShardRows{Before: s.Before, After: s.After, FirstRun: s.FirstRun}
	covered := 0
	for j := range s.Runs() {
		start, end := s.RunRows(j)
		if start != covered || end <= start {
			t.Fatalf("run %d is rows %d to %d, behind row %d", j, start, end, covered)
		}
		covered = end
		in.RunLens = append(in.RunLens, end-start)
		for i := start; i < end; i++ {
			if run, a, b := s.Run(i); run != j || a != start || b != end {
				t.Fatalf("row %d is in run %d, rows %d to %d; want %d, %d to %d", i, run, a, b, j, start, end)
			}
		}
		if k := s.Key(j); k != nil {
			in.Keys = append(in.Keys, k)
			if got, ok := s.FindKey(k); !ok || got != j {
				t.Fatalf("key %q of run %d is found in run %d, %v", k, j, got, ok)
			}
		}
	}
	if covered != s.Len() {
		t.Fatalf("runs cover %d of %d rows", covered, s.Len())
	}
	for c := range s.columns {
		var column []uint32
		for i := range s.Len() {
			column = append(column, s.Ord(c, i))
		}
		in.Ords = append(in.Ords, column)
	}
	for i := range s.Len() {
		in.Rows = append(in.Rows, s.Row(i))
		if tail := s.Tail(i); tail != nil {
			in.Tails = append(in.Tails, tail)
		}
	}
	return in
}

func FuzzParseShard(f *testing.F) {
	f.Add(fuzzShard())
	f.Add(AppendShard(nil, &ShardRows{RunLens: []int{1, 1}, Rows: [][]byte{[]byte(`{"id":1}`), []byte(`{"id":2}`)}}))
	f.Add([]byte{0xff, 0xff, 3, 0, 0, 0, 1})
	f.Add([]byte{1, 0, 0, 0, 0, 1, 0, 8, '{', '"', 'i', 'd', '"', ':', '1', '}'})
	f.Fuzz(func(t *testing.T, plain []byte) {
		s, err := parseShard(bytes.Clone(plain))
		if err != nil {
			return
		}
		in := rowsOf(t, s)
		again, err := parseShard(AppendShard(nil, in))
		if err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		if !reflect.DeepEqual(rowsOf(t, again), in) {
			t.Fatal("written again it is another")
		}
		if s.Size() > 40*len(plain)+1024 {
			t.Fatalf("%d bytes take %d", len(plain), s.Size())
		}
		for i := range s.Len() {
			if id := s.ID(i); id == 0 || id > maxRowID || !bytes.HasPrefix(s.Row(i), []byte(`{"id":`)) {
				t.Fatalf("row %d has id %d: %s", i, id, s.Row(i))
			}
		}
	})
}

// FuzzParseObject either takes the input as an object, or assembles an object from a plain index
// and frames, so that the fuzzer gets past the checksums.
func FuzzParseObject(f *testing.F) {
	var o Object
	plain := fuzzShard()
	o.Add(plain, 4, Fence{Key: "a"})
	o.Add(plain, 4, Fence{Key: "a"})
	index := must.Get(json.Marshal(o.Index))(f)
	f.Add(index, plain, plain, false)
	f.Add(o.Bytes(), []byte{}, []byte{}, true)
	f.Add([]byte(`{"shards":[{"offset":0,"stored":9223372036854775807,"plain":1,"rows":1}]}`), plain, []byte{}, false)
	f.Add([]byte(`{"shards":[{"offset":0,"stored":1,"plain":67108865,"rows":1,"first":{"id":4}}]}`), plain, plain, false)
	f.Fuzz(func(t *testing.T, index, a, b []byte, raw bool) {
		object := index
		if !raw {
			if len(index) == 0 || len(a) == 0 {
				return
			}
			frames := Compress(nil, a)
			first := len(frames)
			if len(b) > 0 {
				frames = Compress(frames, b)
			}
			// The fuzzer cannot know the compressed length of the first frame, so insert it.
			index = bytes.Replace(
				index, []byte(`"offset":0,"stored":1,`), []byte(`"offset":0,"stored":`+jsonInt(first)+`,`), 1)
			head := Compress([]byte(objectMagic+"\x00\x00\x00\x00"), index)
			n := len(head) - 8
			head[4], head[5], head[6], head[7] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
			object = append(head, frames...)
		}
		shards, err := ParseObject(object)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		n := must.Get(IndexSize(object))(t)
		x, err := ParseIndex(object[:n], int64(len(object)))
		if err != nil || len(x.Shards) != len(shards) {
			t.Fatalf("%d shards by an index of %+v, %v", len(shards), x, err)
		}
		for i, s := range shards {
			rowsOf(t, s)
			if s.Len() != x.Shards[i].Rows || string(s.Key(0)) != x.Shards[i].First.Key {
				t.Fatalf("shard %d has %d rows from %q, the index says %+v", i, s.Len(), s.Key(0), x.Shards[i])
			}
		}
		// Summarize the object as Check does, to find panics.
		if p, err := summarizeObject(object); err == nil && p.rows == 0 {
			t.Fatal("an object without rows")
		}
	})
}

func jsonInt(n int) string {
	b, _ := json.Marshal(n) // encoding a number cannot fail
	return string(b)
}

// FuzzDecompress checks that no frame expands to more than the limit, or to a length other than the
// one that it states.
func FuzzDecompress(f *testing.F) {
	frame := Compress(nil, fuzzShard())
	f.Add(frame)
	f.Add(Compress(nil, make([]byte, 100_000)))
	f.Add(append(bytes.Clone(frame), frame...))
	f.Add([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		const limit = 1 << 20
		plain, err := DecompressBounded(frame, limit)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(plain) > limit {
			t.Fatalf("%d bytes", len(plain))
		}
		if again, err := Decompress(frame, int64(len(plain))); err != nil || !bytes.Equal(again, plain) {
			t.Fatalf("%d bytes, then %d, %v", len(plain), len(again), err)
		}
		if _, err := Decompress(frame, int64(len(plain))+1); err == nil {
			t.Fatal("a wrong length is taken")
		}
	})
}

// FuzzKeys checks that a legal name is the name of its key, stays inside the folder to which it is
// joined, and has only legal prefixes.
func FuzzKeys(f *testing.F) {
	d := Sum([]byte("x"))
	for _, name := range []string{
		ObjectKey(d).String(), ManifestKey(d).String(), "objects/../" + d.String(), "current",
		"a", "a/b", "../a", "a/./b", "a//b", "/a", ".tmp/x", `..\a`, "a/..", "%2e%2e/a",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if IsDecimal(name) && (!utf8.ValidString(name) || strings.Trim(name, "-.0123456789") != "") {
			t.Fatalf("%q is a decimal", name)
		}
		key, err := ParseKey(name)
		if err != nil {
			return
		}
		if key.String() != name {
			t.Fatalf("the key of %q is %v", name, key)
		}
		if got := path.Join("/root", name); got != "/root/"+name {
			t.Errorf("key %q joins to %q", name, got)
		}
		for i := range len(name) {
			if err := CheckPrefix(name[:i]); err != nil {
				t.Errorf("CheckPrefix(%q) = %v, and %q is legal", name[:i], err, name)
			}
		}
	})
}
