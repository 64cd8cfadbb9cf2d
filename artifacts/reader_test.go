package artifacts_test

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/reference"
	"github.com/klauspost/compress/zstd"
)

// This reader of a store was written from the package documentation and shares no code with the
// package, so it also finds mistakes that reader and writer have in common. It is plain and slow.

// plainRow is a row of a view.
type plainRow struct {
	id   uint64
	run  int    // its number in the view
	key  string // of the run, when the view has keys
	full string // with its tail
	ords []int  // run numbers in the views of the columns
}

type plainRef struct {
	Digest string
	Size   int64
}

type plainView struct {
	Collection, Sort string
	Rows, Runs, Last int
	Columns          []string
	RowsPerShard     int `json:"rows_per_shard"`
	Objects          []struct {
		plainRef
		Rows  int
		First plainFence
	}

	rows   []plainRow
	shards []plainShard
	keyed  bool
	tails  bool
}

type plainFence struct {
	ID  uint64
	Key string
}

type plainManifest struct {
	Format          int
	Time, Database  string
	Counts          map[string]int
	RowsPerShard    int `json:"rows_per_shard"`
	ShardsPerObject int `json:"shards_per_object"`
	Views           []*plainView
	Global          map[string]string
	Retained        []struct {
		Time     string
		Manifest plainRef
	}
	Ledger plainRef
}

// plainStore is a directory store.
type plainStore struct {
	t     *testing.T
	dir   string
	trust ed25519.PublicKey
}

func (s *plainStore) file(key string) []byte {
	s.t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(key))))(s.t)
	return b
}

// immutable reads an object that is named by its digest.
func (s *plainStore) immutable(key string, ref plainRef) []byte {
	s.t.Helper()
	b := s.file(key)
	if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != ref.Digest || int64(len(b)) != ref.Size {
		s.t.Fatalf("%s: %d bytes with digest %x, want %d with %s", key, len(b), got, ref.Size, ref.Digest)
	}
	return b
}

func (s *plainStore) object(ref plainRef) []byte {
	s.t.Helper()
	return s.immutable("objects/"+ref.Digest[:2]+"/"+ref.Digest[2:], ref)
}

// small reads an object that moves: its checksum, its signature, its fields.
func (s *plainStore) small(key string, v any) {
	s.t.Helper()
	body, line, signed := strings.Cut(string(s.file(key)), "\n")
	at := strings.LastIndex(body, `,"sum":"`)
	if at < 0 {
		s.t.Fatalf("%s has no checksum", key)
	}
	if want := fmt.Sprintf(`,"sum":"%x"}`, sha256.Sum256([]byte(body[:at]))); body[at:] != want {
		s.t.Fatalf("%s ends in %s, want %s", key, body[at:], want)
	}
	var signatures struct {
		Signatures []struct{ Key, Ed25519 string }
	}
	if err := json.Unmarshal([]byte(line), &signatures); !signed || err != nil || len(signatures.Signatures) != 1 {
		s.t.Fatalf("%s: line of signatures %q, %v", key, line, err)
	}
	sig, err := base64.StdEncoding.DecodeString(signatures.Signatures[0].Ed25519)
	if err != nil || !ed25519.Verify(s.trust, []byte("marketdata "+key+"\n"+body+"\n"), sig) {
		s.t.Fatalf("%s is not signed by the key, %v", key, err)
	}
	if id := sha256.Sum256(s.trust); signatures.Signatures[0].Key != hex.EncodeToString(id[:8]) {
		s.t.Fatalf("%s is signed by key %s", key, signatures.Signatures[0].Key)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		s.t.Fatalf("%s: %v", key, err)
	}
}

func (s *plainStore) unzip(frame []byte) []byte {
	s.t.Helper()
	d := must.Get(zstd.NewReader(nil))(s.t)
	defer d.Close()
	plain := must.Get(d.DecodeAll(frame, nil))(s.t)
	return plain
}

func (s *plainStore) manifest(ref plainRef) *plainManifest {
	s.t.Helper()
	m := new(plainManifest)
	must.OK(s.t, json.Unmarshal(s.immutable("manifests/"+ref.Digest, ref), m))
	if m.Format != 1 {
		s.t.Fatalf("format %d", m.Format)
	}
	for _, v := range m.Views {
		s.view(m, v)
	}
	return m
}

// view reads all rows of a view.
func (s *plainStore) view(m *plainManifest, v *plainView) {
	s.t.Helper()
	name := v.Collection + "/" + v.Sort
	for i, o := range v.Objects {
		b := s.object(o.plainRef)
		if string(b[:4]) != "MDV1" {
			s.t.Fatalf("%s: object %d begins with %q", name, i, b[:4])
		}
		n := binary.LittleEndian.Uint32(b[4:])
		var index struct {
			Shards []struct {
				Offset, Stored, Plain int64
				Rows                  int
				First                 plainFence
			}
		}
		if err := json.Unmarshal(s.unzip(b[8:8+n]), &index); err != nil {
			s.t.Fatalf("%s: index of object %d: %v", name, i, err)
		}
		begin, end := len(v.rows), int64(0)
		for j, e := range index.Shards {
			frames := b[8+n:]
			plain := s.unzip(frames[e.Offset : e.Offset+e.Stored])
			if e.Offset != end || int64(len(plain)) != e.Plain {
				s.t.Fatalf("%s: shard %d at %d has %d bytes, the index says %+v", name, j, end, len(plain), e)
			}
			end += e.Stored
			if len(v.rows)%cmp.Or(v.RowsPerShard, m.RowsPerShard) != 0 ||
				len(v.rows)/m.RowsPerShard/m.ShardsPerObject != i {
				s.t.Fatalf("%s: shard %d of object %d begins at row %d", name, j, i, len(v.rows))
			}
			first := len(v.rows)
			s.shard(v, plain)
			if len(v.rows)-first != e.Rows || v.fence(first) != e.First {
				s.t.Fatalf("%s: shard %d has %d rows from %+v, the index says %+v", name, j, len(v.rows)-first,
					v.fence(first), e)
			}
		}
		if end != int64(len(b))-8-int64(n) || len(v.rows)-begin != o.Rows || v.fence(begin) != o.First {
			s.t.Fatalf("%s: object %d has %d rows from %+v, the manifest says %+v", name, i, len(v.rows)-begin,
				v.fence(begin), o)
		}
	}
	if len(v.rows) != v.Rows || len(v.rows) > 0 && v.rows[len(v.rows)-1].run != v.Runs-1 {
		s.t.Fatalf("%s: %d rows, want %d in %d runs", name, len(v.rows), v.Rows, v.Runs)
	}
}

// fence is what index and manifest say of a first row.
func (v *plainView) fence(row int) plainFence {
	switch r := v.rows[row]; {
	case v.Sort == "id":
		return plainFence{ID: r.id}
	case v.keyed:
		return plainFence{Key: r.key}
	}
	return plainFence{}
}

// shard reads a shard's rows.
func (s *plainStore) shard(v *plainView, b []byte) {
	s.t.Helper()
	number := func() int {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			s.t.Fatalf("%s/%s: no number where there must be one", v.Collection, v.Sort)
		}
		b = b[size:]
		return int(n)
	}
	numbers := func(n int) []int {
		list := make([]int, n)
		for i := range list {
			list[i] = number()
		}
		return list
	}
	take := func(n int) string {
		taken := string(b[:n])
		b = b[n:]
		return taken
	}
	n, flags := number(), number()
	v.keyed, v.tails = flags&1 != 0, flags&2 != 0
	before, after, firstRun, r := number(), number(), number(), number()
	lengths := slices.Repeat([]int{1}, n)
	if r != n {
		lengths = numbers(r)
	}
	keys := make([]string, r)
	if v.keyed {
		for i := range keys {
			keys[i] = take(number())
		}
	}
	columns := make([][]int, number())
	for i := range columns {
		columns[i] = numbers(n)
	}
	tails := make([]string, n)
	if v.tails {
		for i, size := range numbers(n) {
			tails[i] = take(size)
		}
	}
	sizes := numbers(n)
	run, left := 0, lengths[0]
	for i, size := range sizes {
		if i > 0 && take(1) != "," {
			s.t.Fatalf("%s/%s: no comma before row %d", v.Collection, v.Sort, i)
		}
		if left == 0 {
			run++
			left = lengths[run]
		}
		left--
		row := plainRow{run: firstRun + run, key: keys[run], full: take(size)}
		if v.tails {
			row.full = strings.TrimSuffix(row.full, "}") + tails[i]
		}
		for _, c := range columns {
			row.ords = append(row.ords, c[i])
		}
		var fields struct{ ID uint64 }
		if err := json.Unmarshal([]byte(row.full), &fields); err != nil ||
			!strings.HasPrefix(row.full, fmt.Sprintf(`{"id":%d`, fields.ID)) {
			s.t.Fatalf("%s/%s: row %s: %v", v.Collection, v.Sort, row.full, err)
		}
		row.id = fields.ID
		v.rows = append(v.rows, row)
	}
	if len(b) != 0 || left != 0 || run != r-1 {
		s.t.Fatalf("%s/%s: %d bytes behind the rows, %d rows too few in run %d of %d", v.Collection, v.Sort, len(b),
			left, run, r)
	}
	v.shards = append(v.shards, plainShard{first: len(v.rows) - n, end: len(v.rows), before: before, after: after})
}

// plainShard is which rows of its view a shard has, and what it says of others.
type plainShard struct{ first, end, before, after int }

// sortKey is what a row is sorted by in views whose keys are text.
func sortKey(t *testing.T, row, field string) string {
	t.Helper()
	var fields map[string]any
	must.OK(t, json.Unmarshal([]byte(row), &fields))
	text, ok := fields[field].(string)
	if !ok || !utf8.ValidString(text) {
		t.Fatalf("row %s has no %s", row, field)
	}
	return reference.Fold(text)
}

// check holds what the views of a snapshot say against each other.
func (m *plainManifest) check(t *testing.T) {
	t.Helper()
	full := map[string]map[uint64]string{} // rows by collection and id
	runs := map[string]map[uint64]int{}    // by view and id
	for _, v := range m.Views {
		name := v.Collection + "/" + v.Sort
		rows, numbers, counts := map[uint64]string{}, map[uint64]int{}, map[int]int{}
		for _, r := range v.rows {
			rows[r.id], numbers[r.id] = r.full, r.run
			counts[r.run]++
		}
		if full[v.Collection] == nil {
			full[v.Collection] = rows
		}
		if len(rows) != len(v.rows) || len(rows) != len(full[v.Collection]) {
			t.Errorf("%s: %d rows of %d ids, another view has %d", name, len(v.rows), len(rows),
				len(full[v.Collection]))
		}
		for id, row := range rows {
			if row != full[v.Collection][id] {
				t.Errorf("%s: row %s, another view has %s", name, row, full[v.Collection][id])
			}
		}
		runs[name] = numbers
		for _, s := range v.shards {
			earlier, later := 0, 0
			for i, r := range v.rows {
				if i < s.first && r.run == v.rows[s.first].run {
					earlier++
				}
				if i >= s.end && r.run == v.rows[s.end-1].run {
					later++
				}
			}
			if earlier != s.before || later != s.after {
				t.Errorf("%s: of the shard of rows %d to %d, %d stand before and %d behind; it says %d and %d", name,
					s.first, s.end, earlier, later, s.before, s.after)
			}
		}
		if v.Last > 0 && counts[v.Runs-1] != v.Last {
			t.Errorf("%s: %d rows stand last, want %d", name, counts[v.Runs-1], v.Last)
		}
	}
	for _, v := range m.Views {
		name := v.Collection + "/" + v.Sort
		text := v.Sort == "name" || v.Sort == "symbol" || v.Sort == "slug"
		for i, r := range v.rows {
			if len(r.ords) != len(v.Columns) {
				t.Fatalf("%s: %d columns, want %d", name, len(r.ords), len(v.Columns))
			}
			for c, column := range v.Columns {
				if want := runs[v.Collection+"/"+column][r.id]; r.ords[c] != want {
					t.Errorf("%s: id %d is in run %d by %s, want %d", name, r.id, r.ords[c], column, want)
				}
			}
			if v.keyed && r.key != sortKey(t, r.full, v.Sort) {
				t.Errorf("%s: key %q of row %s", name, r.key, r.full)
			}
			if i == 0 {
				continue
			}
			prev := v.rows[i-1]
			next := prev.run + 1
			if text {
				a, b := sortKey(t, prev.full, v.Sort), sortKey(t, r.full, v.Sort)
				if a == b {
					next = prev.run
				}
				if a > b {
					t.Errorf("%s: %q stands before %q", name, a, b)
				}
			} else if v.Sort != "id" && r.run == prev.run {
				next = prev.run
			}
			if r.run != next || r.run == prev.run && r.id <= prev.id || v.Sort == "id" && r.id <= prev.id {
				t.Errorf("%s: id %d in run %d follows id %d in run %d", name, r.id, r.run, prev.id, prev.run)
			}
		}
	}
}

// TestFormat1 reads the store of format 1 that is kept in testdata.
func TestFormat1(t *testing.T) {
	s := &plainStore{t: t, dir: filepath.Join("testdata", "format1", "store")}
	var answers struct {
		TrustKey string `json:"trust_key"`
	}
	b, err := os.ReadFile(filepath.Join("testdata", "format1", "answers.json"))
	if err == nil {
		err = json.Unmarshal(b, &answers)
	}
	if err == nil {
		s.trust, err = base64.RawURLEncoding.DecodeString(strings.TrimPrefix(answers.TrustKey, "mdtrust_"))
	}
	if err != nil || len(s.trust) != ed25519.PublicKeySize {
		t.Fatalf("trust key of %d bytes, %v", len(s.trust), err)
	}
	var pointer struct {
		Format      int
		Store, Time string
		Sequence    uint64
		Manifest    plainRef
	}
	s.small("current", &pointer)
	m := s.manifest(pointer.Manifest)
	if pointer.Format != 1 || pointer.Sequence != 2 || len(pointer.Store) != 32 || m.Time != pointer.Time ||
		m.Database != "format-1" || len(m.Retained) != 1 {
		t.Fatalf("%+v names the manifest of %s, %s", pointer, m.Time, m.Database)
	}
	m.check(t)
	s.object(m.Ledger)
	old := s.manifest(m.Retained[0].Manifest)
	if old.Time != m.Retained[0].Time {
		t.Errorf("retained is %s, want %s", old.Time, m.Retained[0].Time)
	}
	old.check(t)

	rows := map[string]int{}
	var links, keyed int
	for _, v := range m.Views {
		rows[v.Collection] = v.Rows
		if v.tails {
			links++
		}
		if v.keyed {
			keyed++
		}
	}
	want := map[string]int{
		"assets": 140, "quotes": 30, "exchanges": 6, "categories": 4, "chains": 4, "trending": rows["trending"]}
	if fmt.Sprint(rows) != fmt.Sprint(want) || m.Counts["assets"] != 140 || links != 5 || keyed == 0 ||
		m.Global["total_market_cap"] == "" {
		t.Errorf("rows %v, want %v; %d views with tails, %d with keys; totals %v", rows, want, links, keyed, m.Global)
	}

	var change struct {
		Format                          int
		Database, Snapshot, Base, Value string
	}
	s.small("change", &change)
	if change.Format != 1 || change.Database != m.Database || change.Snapshot != m.Time || change.Base != old.Time ||
		change.Value != "3" {
		t.Errorf("change record %+v", change)
	}
	var keys struct {
		Format   int
		Sequence uint64
		Keys     []struct{ ID, Name, Hash, Revoked string }
	}
	s.small("keys", &keys)
	if keys.Format != 1 || keys.Sequence != 3 || len(keys.Keys) != 2 || keys.Keys[0].Revoked != "" ||
		keys.Keys[1].Revoked == "" || len(keys.Keys[0].Hash) != 64 {
		t.Errorf("key set %+v", keys)
	}
}
