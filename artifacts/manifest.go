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

// Format is the version of the manifest and the pointer that this release writes. OldestFormat is
// the oldest version that it still reads.
//
// Format 1, November 2026, is the first. The following were added to it later: Identity; Store and
// Number in key sets and change records; history; search; keys in the assets' view by name; the
// collections of CoinsCollection; the log; files; Directory; and Changes. This release also reads
// stores without them, and older readers ignore them.
const (
	Format       = 1
	OldestFormat = 1
)

const (
	// MaxManifestSize is the maximum size of a manifest, in bytes.
	MaxManifestSize = 4 << 20
	// MaxPointerSize is the maximum size of the pointer and of the change record, in bytes.
	MaxPointerSize = 4 << 10
)

// Step is the time between snapshots. The time of a snapshot, T, is a whole multiple of it.
const Step = 10 * time.Minute

// Manifest describes one snapshot: its views and their objects, its totals, the other retained
// snapshots, and the ledger that the next build starts from. It depends on nothing but the feeds,
// their times and the settings.
type Manifest struct {
	Format int `json:"format"`
	// Time is T, the snapshot's time: a whole multiple of ten minutes, UTC.
	Time time.Time `json:"time"`
	// Database is the opaque name of the database from which the feed was exported.
	Database string `json:"database"`
	// Unicode is the version of the Unicode tables with which texts were folded.
	Unicode string `json:"unicode"`
	// Input is the SHA-256 of the accepted rows and the settings. A build with the same T and the
	// same input does nothing (FEED.md, "Guard rails").
	Input Digest `json:"input"`
	// Counts has the number of accepted rows of the feed, by collection.
	Counts map[string]int `json:"counts"`
	// RowsPerShard and ShardsPerObject say how views are divided.
	RowsPerShard    int    `json:"rows_per_shard"`
	ShardsPerObject int    `json:"shards_per_object"`
	Views           []View `json:"views"`
	// Directory is a digest of the data behind the views for which IsDirectory is true. While it
	// stays the same, the next snapshot reuses their objects. If it is zero, the next build writes
	// them again.
	Directory Digest `json:"directory,omitzero"`
	// Changes describes the views for which IsChanges is true. It is nil if the builder did not
	// record changes.
	Changes *Changes `json:"changes,omitempty"`
	// Global has the totals (FEED.md, "Figures").
	Global Global `json:"global"`
	// Retained lists the earlier snapshots that a request may pin
	// (INTERFACE.md, "Pinned paging"), newest first.
	Retained []Retained `json:"retained"`
	// Withdrawn lists, in ascending order, the times of snapshots later than Oldest that a rollback
	// withdrew. Such a time is never published again, and a pin on it is answered as gone rather
	// than as not yet published. A time leaves the list when no older snapshot is retained.
	Withdrawn []time.Time `json:"withdrawn,omitempty"`
	// WithdrawnThrough, if not zero, withdraws every time after Time up to and including
	// WithdrawnThrough, and every time between Oldest and Time that is not retained. A restore sets
	// it, because it does not know which snapshots were published after the backup. It is later
	// than Oldest.
	WithdrawnThrough time.Time `json:"withdrawn_through,omitzero"`
	// Ledger names the root of the builder's ledger, which edges do not read.
	Ledger Ref `json:"ledger"`
	// Files names the object that lists the sets of files. It is zero if no files were ever
	// written.
	Files Ref `json:"files,omitzero"`
	// Notice is shown wherever the snapshot's data is shown. It may be nil.
	Notice *Notice `json:"notice,omitempty"`
}

// MaxNotice is the maximum length of a notice's text and of its URL, in bytes.
const MaxNotice = 200

// Notice is a remark that applies to all data of a snapshot, such as its source.
type Notice struct {
	// Text is plain text of 1 to MaxNotice bytes.
	Text string `json:"text"`
	// URL is an http or https URL of up to MaxNotice bytes, or empty.
	URL string `json:"url,omitempty"`
}

// Check returns an error if the notice is not valid.
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

// AppendJSON appends the notice in the form of the interface, with the members "text" and "url".
// The URL may be "".
func (n *Notice) AppendJSON(dst []byte) []byte {
	dst = AppendString(append(dst, `{"text":`...), n.Text)
	dst = AppendString(append(dst, `,"url":`...), n.URL)
	return append(dst, '}')
}

// Oldest returns the time of the oldest retained snapshot, or Time if none is retained. A rollback
// cannot go back further.
func (m *Manifest) Oldest() time.Time {
	if n := len(m.Retained); n > 0 {
		return m.Retained[n-1].Time
	}
	return m.Time
}

// IsWithdrawn reports whether the snapshot at t was withdrawn. t must be after Time.
func (m *Manifest) IsWithdrawn(t time.Time) bool {
	return !t.After(m.WithdrawnThrough) || slices.ContainsFunc(m.Withdrawn, t.Equal)
}

// View is a collection in one sort order.
type View struct {
	// Collection is assets, quotes, markets, exchanges, categories, chains, trending or search; a
	// collection of history (see HistoryWindow) or of the past (see PastInterval); CoinsCollection
	// or one of its companions; or a day of changes (see ChangesOf).
	Collection string `json:"collection"`
	// Sort is the key by which the rows are sorted in ascending order; ties are broken by id. It is
	// a sort key of the interface, or "board" for trending, "word" for search, "address" for
	// contracts, "time" for changes, or one of GroupSorts for the members of groups.
	Sort string `json:"sort"`
	// Rows and Runs are the numbers of rows and of runs of equal keys.
	Rows int `json:"rows"`
	Runs int `json:"runs"`
	// Last is the number of rows at the end that come last in both directions, such as the assets
	// without a rank in the view by rank.
	Last int `json:"last,omitempty"`
	// Columns names the views whose run numbers the rows have, in the order of the shards' columns.
	Columns []string `json:"columns,omitempty"`
	// RowsPerShard, if not 0, replaces the manifest's RowsPerShard for this view. The view's
	// objects have as many rows as those of other views.
	RowsPerShard int `json:"rows_per_shard,omitempty"`
	// Times lists, in ascending order, the times of the points in a block of history, or of the
	// snapshots in a block of the past.
	Times   []time.Time  `json:"times,omitempty"`
	Objects []ViewObject `json:"objects"`
}

// ViewObject is one object of a view, with the fence of its first row.
type ViewObject struct {
	Ref
	Rows  int   `json:"rows"`
	First Fence `json:"first"`
}

// Global has the two totals as the interface returns them, and the number of active assets.
// Snapshots of the first releases have no ActiveAssets.
type Global struct {
	TotalMarketCap string `json:"total_market_cap"`
	TotalVolume24h string `json:"total_volume_24h"`
	ActiveAssets   int    `json:"active_assets,omitempty"`
}

// Retained names an earlier snapshot.
type Retained struct {
	Time     time.Time `json:"time"`
	Manifest Ref       `json:"manifest"`
}

// Encode returns the stored form of the manifest. Equal manifests have the same stored form.
func (m *Manifest) Encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic("BUG: manifest: " + err.Error())
	}
	return append(b, '\n')
}

// ParseManifest parses a manifest and checks everything that readers rely on, as far as that is
// possible without the objects: times, the division of views, their columns, and the order of their
// objects' fences. It converts times to UTC. It returns ErrFormat for a newer format and ErrCorrupt
// for any other fault.
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

// checkTimes converts all times to UTC and checks them, as well as the references in Retained.
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

// checkSnapshotTime converts t to UTC and rejects it if it cannot be the time of a snapshot.
func checkSnapshotTime(t *time.Time) error {
	if err := checkTime(t); err != nil {
		return err
	}
	if t.IsZero() || !t.Equal(t.Truncate(Step)) {
		return fmt.Errorf("time %v is not a whole multiple of ten minutes", t)
	}
	return nil
}

// checkTime converts t to UTC and rejects it if RFC 3339 cannot represent it.
func checkTime(t *time.Time) error {
	*t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return fmt.Errorf("time of year %d: want 1 to 9999", y)
	}
	return nil
}

// Cut returns the number of rows in a shard of the view, and the number of shards in an object.
func (m *Manifest) Cut(v *View) (rows, shards int) {
	if v.RowsPerShard == 0 {
		return m.RowsPerShard, m.ShardsPerObject
	}
	return v.RowsPerShard, m.RowsPerShard * m.ShardsPerObject / v.RowsPerShard
}

func (m *Manifest) checkView(v *View) error {
	per := m.RowsPerShard * m.ShardsPerObject
	if n := v.RowsPerShard; n < 0 || n > maxShardRows || n > 0 && (per%n != 0 || per/n > maxObjectShards) {
		return fmt.Errorf("%d rows per shard do not divide the %d rows of an object", n, per)
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
			return fmt.Errorf("column %q is not a view of the collection, or appears twice", c)
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
			return fmt.Errorf("object %d is out of order", i)
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

// Pointer is the cell CurrentKey, which says which snapshot is published. Sequences, nonces and
// clock times occur only here, in Change and in KeySet.
type Pointer struct {
	Format int `json:"format"`
	// Store is the store's identity: 32 random lower-case hexadecimal digits.
	Store string `json:"store"`
	// Sequence is one more than the sequence of the preceding pointer. The first is 1.
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	Manifest Ref       `json:"manifest"`
	// Nonce identifies the run that published the snapshot. A publisher that got no answer to its
	// swap reads the pointer again and recognizes its own nonce.
	Nonce string `json:"nonce"`
	// Published is the time of publication by the publisher's clock. It is only for people and
	// metrics.
	Published time.Time `json:"published"`
	// ActivateAt is the time at which each edge, by its own clock, makes the snapshot current, so
	// that all edges switch at the same moment. If it is zero, each edge switches as soon as it is
	// ready (INTERFACE.md, "Activation").
	ActivateAt time.Time `json:"activate_at,omitzero"`
	// DataTimes has the provider's own newest time for each part of a live source's feed. It shows
	// people how old the data is.
	DataTimes map[string]time.Time `json:"data_times,omitempty"`
	// Log is the state of the log of published snapshots, whose last leaf is this publication. It
	// is nil in a store that is not signed.
	Log *LogHead `json:"log,omitempty"`
}

// LogHead is a state of the log.
type LogHead struct {
	// Size is the number of leaves, from 1 to MaxNumber.
	Size int64 `json:"size"`
	// Root is the hash of the Merkle tree (RFC 6962) of that many leaves.
	Root Digest `json:"root"`
}

// MaxActivateAfter is the maximum time from the swap of the pointer until its snapshot becomes
// current.
const MaxActivateAfter = 5 * time.Minute

// Encode returns the stored form of the pointer.
func (p *Pointer) Encode() []byte { return EncodeSmall(p) }

// ParsePointer parses a pointer. It ignores signatures, which Trust.Verify checks, and converts
// times to UTC. It returns ErrFormat for a newer format and ErrCorrupt for any other fault.
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

// checkActivation is checkTime for a time that may be zero.
func checkActivation(t *time.Time) error {
	if t.IsZero() {
		return nil
	}
	return checkTime(t)
}

func isStoreID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// Change is the cell ChangeKey: the result of the change job (FEED.md, "Change of the total").
type Change struct {
	Format int `json:"format"`
	Numbered
	// Sequence is the pointer's sequence at the time of recording, or 0 if it was not known.
	// Builders refuse to follow a pointer whose sequence exceeds it by more than MaxJump, because
	// edges would reject the snapshots that they publish.
	Sequence uint64 `json:"sequence,omitempty"`
	// Database is the database of the totals from which the change was computed.
	Database string `json:"database"`
	// Time is when the job ran, by its own clock.
	Time time.Time `json:"time"`
	// Snapshot is T', the time of the newest total. Base is the time of the total with which it is
	// compared: the earliest one in the preceding 24 hours.
	Snapshot time.Time `json:"snapshot"`
	Base     time.Time `json:"base"`
	// Value is the percentage, a decimal string with up to 12 digits after the point. Edges answer
	// null if it has more than 9 integer digits.
	Value string `json:"value"`
}

// Encode returns the stored form of the record.
func (c *Change) Encode() []byte { return EncodeSmall(c) }

// ParseChange parses a change record. It ignores signatures and converts times to UTC. It returns
// ErrFormat for a newer format and ErrCorrupt for any other fault.
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

// IsDecimal reports whether s is a decimal in the form that responses use (FEED.md, "Numbers"): an
// optional minus sign, digits without a leading zero and, optionally, a point and 1 to 12 digits.
// The last digit after a point is not 0. Minus zero is not a decimal.
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

// ParseFormat parses a JSON object that names its format into v, a pointer to a struct with a field
// Format. If this release does not read the format, the error is ErrFormat, whatever the other
// fields contain. ParseFormat ignores signatures, which Trust.Verify checks.
func ParseFormat(what string, b []byte, v any) error {
	b, _ = splitSigned(b)
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: %s: not UTF-8", ErrCorrupt, what)
	}
	err := json.Unmarshal(b, v) // A manifest is long, so do not parse it twice.
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
		// The error may quote a number of any length.
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, what, redact.Error(err))
	}
	return nil
}

// Cells end in a checksum: the SHA-256 of all bytes before its comma. They need one because their
// names contain no digest: readers would accept a sequence with one wrong digit until the true
// sequence exceeded it.
const (
	sumStart  = `,"sum":"`
	sumEnd    = `"}`
	sumLength = len(sumStart) + 2*len(Digest{}) + len(sumEnd)
)

// EncodeSmall returns the stored form of a cell or a similar record, which must have at least one
// field: one line of JSON that ends in a checksum.
func EncodeSmall(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: small object: " + err.Error())
	}
	return addSum(b)
}

// addSum adds the checksum to the encoding of a JSON object that has at least one field.
func addSum(b []byte) []byte {
	b = b[:len(b)-1] // without the closing brace
	return append(b, sumStart+Sum(b).String()+sumEnd+"\n"...)
}

// ParseSmall is ParseFormat for an object that must end in a valid checksum.
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
		return fmt.Errorf("%w: %s: its checksum does not match", ErrCorrupt, what)
	}
	return nil
}
