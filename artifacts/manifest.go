package artifacts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/internal/redact"
)

// Format is the version of manifest and pointer that this release writes.
// OldestFormat is the oldest one that it still reads.
//
// History: 1, November 2026, the first. Identity, and store and number of key set
// and change record, history, search, the keys of the assets' view by name, and the collections
// of CoinsCollection, the log, files, Directory and Changes came later in it: a store without them is read, and older
// readers ignore them.
const (
	Format       = 1
	OldestFormat = 1
)

const (
	// MaxManifestSize bounds a manifest, in bytes.
	MaxManifestSize = 4 << 20
	// MaxPointerSize bounds the pointer and the change record, in bytes.
	MaxPointerSize = 4 << 10
)

// Step is the distance of snapshots: T is a whole multiple of it.
const Step = 10 * time.Minute

// Manifest describes one snapshot: the views with their objects, the totals,
// what else is retained, and the ledger that the next build starts from. It
// depends on nothing but the feeds, their times and the settings.
type Manifest struct {
	Format int `json:"format"`
	// Time is T, the snapshot's time: a whole multiple of ten minutes, UTC.
	Time time.Time `json:"time"`
	// Database is the feed's opaque name of the database it came from.
	Database string `json:"database"`
	// Unicode is the version of the tables that text was folded with.
	Unicode string `json:"unicode"`
	// Input is the SHA-256 of the accepted rows and the settings: a build at
	// the same T with the same input is a no-op (FEED.md, "Guard rails").
	Input Digest `json:"input"`
	// Counts are the rows of the feed that were accepted, by collection.
	Counts map[string]int `json:"counts"`
	// RowsPerShard and ShardsPerObject cut every view.
	RowsPerShard    int    `json:"rows_per_shard"`
	ShardsPerObject int    `json:"shards_per_object"`
	Views           []View `json:"views"`
	// Directory is the digest of what the views of IsDirectory are made of: while it stays the
	// same the next snapshot names the same objects. Zero: they are made anew.
	Directory Digest `json:"directory,omitzero"`
	// Changes is about the views of IsChanges; nil: the builder did not record changes.
	Changes *Changes `json:"changes,omitempty"`
	// Global holds the totals (FEED.md, "Figures").
	Global Global `json:"global"`
	// Retained lists the earlier snapshots that a request may pin
	// (INTERFACE.md, "Pinned paging"), newest first.
	Retained []Retained `json:"retained"`
	// Withdrawn are the times later than Oldest of snapshots that a rollback took
	// back, ascending: none is published again, and a pin on one is gone, not
	// yet to come. A time leaves the list when nothing older is retained.
	Withdrawn []time.Time `json:"withdrawn,omitempty"`
	// WithdrawnThrough withdraws every time later than Time up to itself, and every
	// one between Oldest and Time that is not retained: a restore does not know which
	// were published since its backup. Zero, or later than Oldest.
	WithdrawnThrough time.Time `json:"withdrawn_through,omitzero"`
	// Ledger names what the builder remembers: the root of its ledger, which
	// only the builder reads.
	Ledger Ref `json:"ledger"`
	// Files names the sets of files that are kept; zero: none ever was made.
	Files Ref `json:"files,omitzero"`
	// Notice is shown wherever the snapshot is; nil: there is none.
	Notice *Notice `json:"notice,omitempty"`
}

// MaxNotice bounds the text and the URL of a notice, in bytes each.
const MaxNotice = 200

// Notice is a remark on all of a snapshot's data, such as whom it is from.
type Notice struct {
	// Text is plain text of 1 to MaxNotice bytes.
	Text string `json:"text"`
	// URL is an http or https URL of up to MaxNotice bytes; "": there is none.
	URL string `json:"url,omitempty"`
}

// Check returns what is wrong with a notice.
func (n *Notice) Check() error {
	u, err := url.Parse(n.URL)
	switch {
	case len(n.Text) == 0 || len(n.Text) > MaxNotice || !utf8.ValidString(n.Text):
		return fmt.Errorf("the notice's text has %d bytes: want 1 to %d, in UTF-8", len(n.Text), MaxNotice)
	case strings.ContainsFunc(n.Text, unicode.IsControl):
		return fmt.Errorf("the notice %q has control characters", n.Text)
	case n.URL == "":
		return nil
	case len(n.URL) > MaxNotice || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("the notice's URL %.100q: want an http or https URL of at most %d bytes", n.URL, MaxNotice)
	}
	return nil
}

// AppendJSON appends the notice as the interface has it: text and url, which is "" where there is none.
func (n *Notice) AppendJSON(dst []byte) []byte {
	dst = AppendString(append(dst, `{"text":`...), n.Text)
	dst = AppendString(append(dst, `,"url":`...), n.URL)
	return append(dst, '}')
}

// Oldest is the time of the oldest snapshot that is retained, itself if none is:
// no rollback goes further back.
func (m *Manifest) Oldest() time.Time {
	if n := len(m.Retained); n > 0 {
		return m.Retained[n-1].Time
	}
	return m.Time
}

// IsWithdrawn reports whether t, later than Time, was withdrawn.
func (m *Manifest) IsWithdrawn(t time.Time) bool {
	return !t.After(m.WithdrawnThrough) || slices.ContainsFunc(m.Withdrawn, t.Equal)
}

// View is a collection in one sort order.
type View struct {
	// Collection is assets, quotes, markets, exchanges, categories, chains, trending,
	// search, one of history (see HistoryWindow) or of the past (see PastInterval), one of those
	// of CoinsCollection, or a day of changes (see ChangesOf).
	Collection string `json:"collection"`
	// Sort is the key it is sorted by, ascending, ties by id: a sort key of the
	// interface; for trending it is board, for search word, for contracts address, for
	// changes time, for the members of groups GroupSorts.
	Sort string `json:"sort"`
	// Rows and Runs count the rows, and the runs of equal keys.
	Rows int `json:"rows"`
	Runs int `json:"runs"`
	// Last counts the rows at the end that stand last in both directions:
	// assets without a rank in the view by rank.
	Last int `json:"last,omitempty"`
	// Columns names the views whose run numbers the rows carry, in the order
	// of the shards' columns.
	Columns []string `json:"columns,omitempty"`
	// RowsPerShard cuts the view's shards if it is not 0, in the place of the
	// manifest's. Objects have as many rows as those of other views.
	RowsPerShard int `json:"rows_per_shard,omitempty"`
	// Times are those of the points in a block of history, or of the snapshots in one of the past,
	// ascending.
	Times   []time.Time  `json:"times,omitempty"`
	Objects []ViewObject `json:"objects"`
}

// ViewObject is one object of a view with the fence of its first row.
type ViewObject struct {
	Ref
	Rows  int   `json:"rows"`
	First Fence `json:"first"`
}

// Global holds the two totals as they are answered, and the number of active assets, which
// snapshots of before do not have.
type Global struct {
	TotalMarketCap string `json:"total_market_cap"`
	TotalVolume24h string `json:"total_volume_24h"`
	ActiveAssets   int    `json:"active_assets,omitempty"`
}

// Retained is an earlier snapshot.
type Retained struct {
	Time     time.Time `json:"time"`
	Manifest Ref       `json:"manifest"`
}

// Encode returns the manifest's stored form, which is the same for equal manifests.
func (m *Manifest) Encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic("BUG: manifest: " + err.Error())
	}
	return append(b, '\n')
}

// ParseManifest reads a manifest and checks what a reader relies on and can see without the
// objects: times, how views are cut, their columns, and the order of their objects' fences. Times
// are brought to UTC. A newer format gives ErrFormat, and everything else that is wrong ErrCorrupt.
func ParseManifest(b []byte) (*Manifest, error) {
	var m Manifest
	if err := ParseFormat("manifest", b, &m); err != nil {
		return nil, err
	}
	if err := m.checkTimes(); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrCorrupt, err)
	}
	if m.Ledger.Size < 0 || m.Ledger.Size > MaxObjectSize {
		return nil, fmt.Errorf("%w: manifest: ledger has %d bytes", ErrCorrupt, m.Ledger.Size)
	}
	if n := m.Files.Size; n < 0 || n > MaxObjectSize || n == 0 != m.Files.Digest.IsZero() {
		return nil, fmt.Errorf("%w: manifest: sets of files have %d bytes", ErrCorrupt, n)
	}
	if m.RowsPerShard < 1 || m.RowsPerShard > maxShardRows || m.ShardsPerObject < 1 ||
		m.ShardsPerObject > maxObjectShards {
		return nil, fmt.Errorf(
			"%w: manifest: %d rows a shard, %d shards an object", ErrCorrupt, m.RowsPerShard, m.ShardsPerObject)
	}
	seen := map[string]bool{}
	for i := range m.Views {
		v := &m.Views[i]
		name := v.Collection + "/" + v.Sort
		if seen[name] {
			return nil, fmt.Errorf("%w: manifest: view %q twice", ErrCorrupt, name)
		}
		seen[name] = true
		if err := m.checkView(v); err != nil {
			return nil, fmt.Errorf("%w: manifest: view %s: %w", ErrCorrupt, name, err)
		}
	}
	if err := m.checkPast(); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrCorrupt, err)
	}
	if err := m.checkHistory(); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrCorrupt, err)
	}
	if err := m.checkChanges(); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrCorrupt, err)
	}
	return &m, nil
}

// checkTimes brings all times to UTC, and checks what they are times of.
func (m *Manifest) checkTimes() error {
	if err := checkSnapshotTime(&m.Time); err != nil {
		return err
	}
	for i := range m.Retained {
		r := &m.Retained[i]
		if err := checkSnapshotTime(&r.Time); err != nil {
			return fmt.Errorf("retained: %w", err)
		}
		if r.Manifest.Digest.IsZero() || r.Manifest.Size < 1 || r.Manifest.Size > MaxManifestSize {
			return fmt.Errorf("retained %v: manifest of %d bytes, or without a digest", r.Time, r.Manifest.Size)
		}
	}
	for i := range m.Withdrawn {
		if err := checkSnapshotTime(&m.Withdrawn[i]); err != nil {
			return fmt.Errorf("withdrawn: %w", err)
		}
	}
	if m.WithdrawnThrough.IsZero() {
		return nil
	}
	if err := checkSnapshotTime(&m.WithdrawnThrough); err != nil {
		return fmt.Errorf("withdrawn through: %w", err)
	}
	return nil
}

// checkSnapshotTime brings t to UTC and refuses what is no snapshot's time.
func checkSnapshotTime(t *time.Time) error {
	if err := checkTime(t); err != nil {
		return err
	}
	if t.IsZero() || !t.Equal(t.Truncate(Step)) {
		return fmt.Errorf("time %v is no multiple of ten minutes", t)
	}
	return nil
}

// checkTime brings t to UTC, and refuses it when RFC 3339 cannot write it then.
func checkTime(t *time.Time) error {
	*t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return fmt.Errorf("time of year %d: want 1 to 9999", y)
	}
	return nil
}

// Cut returns how many rows a shard of a view has, and how many shards an object has.
func (m *Manifest) Cut(v *View) (rows, shards int) {
	if v.RowsPerShard == 0 {
		return m.RowsPerShard, m.ShardsPerObject
	}
	return v.RowsPerShard, m.RowsPerShard * m.ShardsPerObject / v.RowsPerShard
}

func (m *Manifest) checkView(v *View) error {
	per := m.RowsPerShard * m.ShardsPerObject
	if n := v.RowsPerShard; n < 0 || n > maxShardRows || n > 0 && (per%n != 0 || per/n > maxObjectShards) {
		return fmt.Errorf("%d rows a shard, where an object has %d", n, per)
	}
	if v.Rows < 0 || v.Runs < 0 || v.Runs > v.Rows || v.Last < 0 || v.Last > v.Rows {
		return fmt.Errorf("%d rows, %d runs, %d last", v.Rows, v.Runs, v.Last)
	}
	if want := (v.Rows + per - 1) / per; len(v.Objects) != want {
		return fmt.Errorf("%d objects, want %d", len(v.Objects), want)
	}
	if len(v.Columns) > maxShardColumns {
		return fmt.Errorf("%d columns, at most %d are read", len(v.Columns), maxShardColumns)
	}
	for i, c := range v.Columns {
		if m.View(v.Collection, c) == nil || slices.Contains(v.Columns[:i], c) {
			return fmt.Errorf("column %q is no view of the collection, or there twice", c)
		}
	}
	for i := range v.Objects {
		o := &v.Objects[i]
		if want := min(per, v.Rows-i*per); o.Rows != want {
			return fmt.Errorf("object %d has %d rows, want %d", i, o.Rows, want)
		}
		if o.Digest.IsZero() || o.Size < 8 || o.Size > MaxObjectSize {
			return fmt.Errorf("object %d has %d bytes, or no digest", i, o.Size)
		}
		if i == 0 {
			continue
		}
		if prev := v.Objects[i-1].First; prev.ID > o.First.ID || prev.ID == o.First.ID && prev.ID != 0 ||
			prev.Key > o.First.Key {
			return fmt.Errorf("object %d does not follow", i)
		}
	}
	return nil
}

// View returns the view of a collection in a sort order, or nil.
func (m *Manifest) View(collection, sort string) *View {
	for i := range m.Views {
		if v := &m.Views[i]; v.Collection == collection && v.Sort == sort {
			return v
		}
	}
	return nil
}

// Pointer is the object CurrentKey: which snapshot is published. It is the only
// place, with Change and KeySet, where sequence, nonce and clock stand.
type Pointer struct {
	Format int `json:"format"`
	// Store is the store's identity: 32 lower-case hexadecimal digits, random,
	// made with the first snapshot.
	Store string `json:"store"`
	// Sequence is the previous pointer's plus one, from 1.
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	Manifest Ref       `json:"manifest"`
	// Nonce names the run that published; a publisher whose answer was lost
	// reads the pointer back and knows its own.
	Nonce string `json:"nonce"`
	// Published is the publisher's clock, for people and for metrics only.
	Published time.Time `json:"published"`
	// ActivateAt is when edges make the snapshot current, each by its own clock, so
	// that all do at once; zero: each as soon as it can (INTERFACE.md, "Activation").
	ActivateAt time.Time `json:"activate_at,omitzero"`
	// DataTimes are the newest times of the provider's own in each part of a live
	// source's feed, for people: the snapshot is from no older data.
	DataTimes map[string]time.Time `json:"data_times,omitempty"`
	// Log is the log of published snapshots, whose last leaf is this publication; nil in a store
	// that is not signed.
	Log *LogHead `json:"log,omitempty"`
}

// LogHead is a state of the log.
type LogHead struct {
	// Size is the number of leaves, from 1 to MaxNumber.
	Size int64 `json:"size"`
	// Root is the hash of the Merkle tree (RFC 6962) of that many leaves.
	Root Digest `json:"root"`
}

// MaxActivateAfter bounds how long after its pointer moved a snapshot becomes current.
const MaxActivateAfter = 5 * time.Minute

// Encode returns the pointer's stored form.
func (p *Pointer) Encode() []byte { return EncodeSmall(p) }

// ParsePointer reads a pointer; a line of signatures behind it is left out, see Trust.Verify. Times
// are brought to UTC. A newer format gives ErrFormat, and everything else that is wrong ErrCorrupt.
func ParsePointer(b []byte) (*Pointer, error) {
	var p Pointer
	if err := ParseSmall("pointer", b, &p); err != nil {
		return nil, err
	}
	if !isStoreID(p.Store) || p.Sequence == 0 || p.Sequence > MaxNumber || p.Manifest.Digest.IsZero() ||
		p.Manifest.Size < 1 || p.Manifest.Size > MaxManifestSize ||
		p.Log != nil && (p.Log.Size < 1 || p.Log.Size > MaxNumber) {
		return nil, fmt.Errorf("%w: pointer: a field is missing or out of range", ErrCorrupt)
	}
	if err := cmp.Or(checkSnapshotTime(&p.Time), checkTime(&p.Published), checkActivation(&p.ActivateAt)); err != nil {
		return nil, fmt.Errorf("%w: pointer: %w", ErrCorrupt, err)
	}
	return &p, nil
}

// checkActivation is checkTime for a time that may be missing.
func checkActivation(t *time.Time) error {
	if t.IsZero() {
		return nil
	}
	return checkTime(t)
}

func isStoreID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// Change is the object ChangeKey: what the change job found (FEED.md, "Change of the total").
type Change struct {
	Format int `json:"format"`
	Numbered
	// Sequence is the pointer's when it was recorded; 0: not known. No builder follows a
	// pointer that is more than MaxJump above it: edges would refuse what it publishes.
	Sequence uint64 `json:"sequence,omitempty"`
	// Database is that of the totals it was computed from.
	Database string `json:"database"`
	// Time is the job's own time, by its clock.
	Time time.Time `json:"time"`
	// Snapshot is T', the time of the newest total; Base that of the earliest.
	Snapshot time.Time `json:"snapshot"`
	Base     time.Time `json:"base"`
	// Value is the percentage, a decimal string with up to 12 decimals. More
	// than 9 integer digits are answered as null.
	Value string `json:"value"`
}

// Encode returns the record's stored form.
func (c *Change) Encode() []byte { return EncodeSmall(c) }

// ParseChange reads a change record; a line of signatures behind it is left out. Times are brought
// to UTC. A newer format gives ErrFormat, and everything else that is wrong ErrCorrupt.
func ParseChange(b []byte) (*Change, error) {
	var c Change
	if err := ParseSmall("change record", b, &c); err != nil {
		return nil, err
	}
	if c.Time.IsZero() || !IsDecimal(c.Value) {
		return nil, fmt.Errorf("%w: change record: a field is missing or out of range", ErrCorrupt)
	}
	if err := cmp.Or(c.check(), checkTime(&c.Time), checkTime(&c.Snapshot), checkTime(&c.Base)); err != nil {
		return nil, fmt.Errorf("%w: change record: %w", ErrCorrupt, err)
	}
	return &c, nil
}

// IsDecimal reports whether s is a decimal as responses have it
// (FEED.md, "Numbers"): an optional minus, digits without a leading zero, and
// behind a point at most 12 digits of which the last is not 0.
func IsDecimal(s string) bool { return isDecimal(s, 12) }

func isDecimal(s string, places int) bool {
	neg := len(s) > 0 && s[0] == '-'
	if neg {
		s = s[1:]
	}
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	if i == 0 || i > 1 && s[0] == '0' {
		return false
	}
	if i == len(s) {
		return !(neg && s == "0")
	}
	f := s[i+1:]
	if s[i] != '.' || f == "" || len(f) > places || f[len(f)-1] == '0' {
		return false
	}
	for _, c := range []byte(f) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// ParseFormat reads a JSON object that names its format into v, a pointer to a struct with a field
// Format. A format that this release does not read is refused as such, whatever is in the other
// fields. A line of signatures behind it is left out; see Trust.Verify.
func ParseFormat(what string, b []byte, v any) error {
	b, _ = splitSigned(b)
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: %s: not UTF-8", ErrCorrupt, what)
	}
	err := json.Unmarshal(b, v) // all at once: a manifest is long
	format := int(reflect.ValueOf(v).Elem().FieldByName("Format").Int())
	if err != nil {
		var f struct {
			Format int `json:"format"`
		}
		if json.Unmarshal(b, &f) != nil {
			f.Format = Format
		}
		format = f.Format
	}
	if format < OldestFormat || format > Format {
		return fmt.Errorf(
			"%w: %s: format %d; this release reads %d to %d", ErrFormat, what, format, OldestFormat, Format)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, what, redact.Error(err)) // which may quote a number of any length
	}
	return nil
}

// The field with the checksum stands last in each of the small objects: the SHA-256 of all bytes
// before its comma. They have no digest in their names, and one wrong digit of a sequence would be
// believed for as long as the true sequence stays below it.
const (
	sumStart  = `,"sum":"`
	sumEnd    = `"}`
	sumLength = len(sumStart) + 2*len(Digest{}) + len(sumEnd)
)

// EncodeSmall returns the stored form of a small object or record that has
// fields: JSON in one line, with its checksum last.
func EncodeSmall(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: small object: " + err.Error())
	}
	return addSum(b)
}

// addSum puts the checksum into the encoding of a JSON object that has fields.
func addSum(b []byte) []byte {
	b = b[:len(b)-1] // without its brace
	return append(b, sumStart+Sum(b).String()+sumEnd+"\n"...)
}

// ParseSmall is ParseFormat for an object whose checksum must be there and right.
func ParseSmall(what string, b []byte, v any) error {
	if err := ParseFormat(what, b, v); err != nil {
		return err
	}
	body, _ := splitSigned(b)
	body = bytes.TrimSuffix(body, []byte{'\n'})
	i := len(body) - sumLength
	if i < 0 || !bytes.HasPrefix(body[i:], []byte(sumStart)) || !bytes.HasSuffix(body, []byte(sumEnd)) {
		return fmt.Errorf("%w: %s: it does not end in a checksum", ErrCorrupt, what)
	}
	if string(body[i+len(sumStart):len(body)-len(sumEnd)]) != Sum(body[:i]).String() {
		return fmt.Errorf("%w: %s: its bytes are not those that the checksum was made of", ErrCorrupt, what)
	}
	return nil
}
