package builder

import (
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
)

// Report says what a build or a rollback did (COMMANDS.md, "Reports").
type Report struct {
	// SnapshotTime is T, or the published snapshot's time if that snapshot stays. It is empty if
	// the build failed before the time was known.
	SnapshotTime string `json:"snapshot_time"`
	// Published is false if the store is unchanged. If this is not a failure, Reason says why. A
	// failure is returned as an error together with the report.
	Published bool   `json:"published"`
	Reason    string `json:"reason,omitempty"`
	// Sequence is the sequence of the published snapshot.
	Sequence uint64 `json:"sequence"`
	// LogError says why the log lacks the published snapshot. The next publication writes it to the
	// log.
	LogError string `json:"log_error,omitempty"`
	Database string `json:"database"`
	// Counts has the number of accepted rows of each collection, and Rejected the number of rejected
	// rows of each file.
	Counts   map[string]int `json:"counts"`
	Rejected map[string]int `json:"rejected"`
	// Rejections are the first rejected rows, with their reasons.
	Rejections []string `json:"rejections"`
	// Warned counts the feed's values that were dropped, cleaned or ignored. Warnings describes
	// some of them, a few for each field.
	Warned   int      `json:"warned"`
	Warnings []string `json:"warnings"`
	// UnknownMembers, UnknownNatives and BadDataTimes count values that do not make their row
	// invalid (FEED.md, "Bad input").
	UnknownMembers int `json:"unknown_members"`
	UnknownNatives int `json:"unknown_natives"`
	BadDataTimes   int `json:"bad_data_times"`
	// Parts are the parts of a live source's feed, with their ages. StaleParts counts the parts
	// that could not be fetched, for which the snapshot repeats the last data.
	Parts      []source.Part `json:"parts,omitempty"`
	StaleParts int           `json:"stale_parts,omitempty"`
	// OldParts names the parts whose newest row was too old at T: its age exceeded the interval
	// between requests by more than maxFresh.
	OldParts []string `json:"old_parts,omitempty"`
	// Quota counts the calls of a live source, including the calls of this build.
	Quota *source.Quota `json:"quota,omitempty"`
	// Past counts the feeds in a backfill that were remembered without a snapshot.
	Past int `json:"past,omitempty"`
	// Kept counts the feeds in a backfill whose prices the ledger keeps, including the newest one.
	// The older the feeds, the fewer of them the ledger keeps. KeptFrom is the time of the oldest
	// kept feed.
	Kept     int       `json:"kept,omitempty"`
	KeptFrom time.Time `json:"kept_from,omitzero"`
	// Forced names the guard rails that were overridden, or that could not be checked because the
	// last snapshot is damaged.
	Forced []string `json:"forced,omitempty"`
	// MissingObjects counts the objects that the snapshot names but that are missing from the store
	// or truncated. Missing has the first few of their keys. builder repair puts these objects
	// back.
	MissingObjects int             `json:"missing_objects"`
	Missing        []artifacts.Key `json:"missing,omitempty"`
	// ObjectsWritten counts the immutable objects that were put, including the manifest. A build
	// does not put an object again if the store is known to hold it.
	ObjectsWritten int   `json:"objects_written"`
	BytesWritten   int64 `json:"bytes_written"`
	DurationMS     int64 `json:"duration_ms"`
	// Steps are the durations of the steps, in order.
	Steps []StepTime `json:"steps"`
}

// maxFresh is how far the age of a live provider's data at T may exceed the interval between
// requests before the data counts as old.
const maxFresh = 30 * time.Minute

// StepTime is how long one step took.
type StepTime struct {
	Step string `json:"step"`
	MS   int64  `json:"ms"`
}

// maxReportedRejections limits the lengths of Report.Rejections, Report.Warnings and
// Report.Missing.
const maxReportedRejections = 20

func newReport() *Report {
	return &Report{Counts: map[string]int{}, Rejected: map[string]int{}, Rejections: []string{}, Warnings: []string{},
		Steps: []StepTime{}}
}

// ReportOf returns the report of an existing snapshot.
func ReportOf(m *artifacts.Manifest) *Report {
	r := newReport()
	r.of(m)
	return r
}

func (r *Report) of(m *artifacts.Manifest) {
	r.SnapshotTime, r.Database, r.Counts = publish.Stamp(m.Time), m.Database, m.Counts
}

// Leave records that the published snapshot stays, and why, and returns r.
func (r *Report) Leave(head *publish.Head, reason string) *Report {
	r.Published, r.Reason, r.Sequence = false, reason, head.Pointer.Sequence
	r.SnapshotTime = publish.Stamp(head.Manifest.Time)
	return r
}

// feed records the input of a snapshot.
func (r *Report) feed(in *input) {
	r.SnapshotTime, r.Database, r.Counts = publish.Stamp(in.t), in.feed.Database, counts(in.feed)
	r.rows(in.rows)
	for _, p := range in.rows.Parts {
		if p.State == source.PartStale {
			r.StaleParts++
		}
		if !p.Newest.IsZero() && in.t.Sub(p.Newest) > maxFresh+p.Every {
			r.OldParts = append(r.OldParts, p.Name)
		}
	}
}

// dataTimes returns the time of the newest row of each part, for the pointer. It omits parts
// without such a time. A provider has few parts, so the times fit into a pointer.
func (r *Report) dataTimes() map[string]time.Time {
	times := map[string]time.Time{}
	for _, p := range r.Parts {
		if !p.Newest.IsZero() {
			times[p.Name] = p.Newest.UTC()
		}
	}
	return times
}

func (r *Report) rows(src *source.Report) {
	for _, f := range src.Files {
		r.Rejected[f.Name] = f.Rejected
		for _, row := range f.Rejections {
			if len(r.Rejections) < maxReportedRejections {
				r.Rejections = append(r.Rejections, row.String())
			}
		}
		r.Warned += f.Warned
		for _, w := range f.Warnings[:min(len(f.Warnings), maxReportedRejections-len(r.Warnings))] {
			r.Warnings = append(r.Warnings, w.String())
		}
	}
	r.Parts = src.Parts
	r.UnknownMembers, r.UnknownNatives, r.BadDataTimes = src.UnknownMembers, src.UnknownNatives, src.BadDataTimes
}

func (r *Report) missing(keys []artifacts.Key) {
	r.MissingObjects, r.Missing = len(keys), keys[:min(len(keys), maxReportedRejections)]
}

// RejectedRows returns the number of rejected rows in all files.
func (r *Report) RejectedRows() (n int) {
	for _, f := range r.Rejected {
		n += f
	}
	return n
}
