package source

import (
	"fmt"
	"unicode/utf8"
)

// maxRejections bounds the rejections of each file that a Report lists. All are counted.
const maxRejections = 100

// Report says how many of a feed's rows Read accepted, and why not the others.
type Report struct {
	// Files are the NDJSON files in the order of reading, including missing ones.
	Files []FileReport
	// UnknownMembers and UnknownNatives count the members and native coins of accepted
	// groups that are not in the directory; BadDataTimes counts the unusable data_time
	// values of accepted exchanges. None of these is an error of its row.
	UnknownMembers, UnknownNatives, BadDataTimes int
	// Parts are those of a live source's feed.
	Parts []Part
}

// FileReport counts a file's rows, without blank lines. Rows is Accepted plus Rejected.
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
	// Key is the row's key, shortened if it is long; "" if it cannot be read.
	Key    string
	Reason string
}

func (r Rejection) String() string {
	if r.Key == "" {
		return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Reason)
	}
	return fmt.Sprintf("%s:%d: key %q: %s", r.File, r.Line, r.Key, r.Reason)
}

// maxQuoted bounds quotations from a row in reports and reasons, in bytes.
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
