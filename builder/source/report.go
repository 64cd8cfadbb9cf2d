package source

import (
	"fmt"
	"unicode/utf8"
)

// maxRejections is how many rejections of each file a Report lists; all are
// counted.
const maxRejections = 100

// Report says what Read made of a feed's rows.
type Report struct {
	// Files are the NDJSON files in the order in which they were read, those
	// that are missing too.
	Files []FileReport
	// UnknownMembers and UnknownNatives count the members and native coins of
	// accepted groups that are not in the directory, BadDataTimes the
	// data_time of accepted exchanges that is no usable time. None of these is
	// an error of its row.
	UnknownMembers, UnknownNatives, BadDataTimes int
	// Parts are those of a live source's feed, none of any other.
	Parts []Part
}

// FileReport counts a file's rows; blank lines are none. Rows is Accepted plus
// Rejected.
type FileReport struct {
	Name                     string
	Rows, Accepted, Rejected int
	// Rejections are the first maxRejections rows that were set aside.
	Rejections []Rejection
}

// Rejection says why a row was set aside.
type Rejection struct {
	File string
	// Line counts from 1, blank lines included.
	Line int
	// Key is the row's key, shortened if need be; "" when it has none that can
	// be read.
	Key    string
	Reason string
}

func (r Rejection) String() string {
	if r.Key == "" {
		return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Reason)
	}
	return fmt.Sprintf("%s:%d: key %q: %s", r.File, r.Line, r.Key, r.Reason)
}

// maxQuoted bounds what reports and reasons quote of a row, in bytes.
const maxQuoted = 80

// shorten cuts text to maxQuoted bytes, between two characters.
func shorten(text []byte) string {
	if len(text) <= maxQuoted {
		return string(text)
	}
	n := maxQuoted
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n]) + "…"
}
