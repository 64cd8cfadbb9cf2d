package source

import "unicode/utf8"

// maxRejections bounds the rejections and the warnings of each file that a Report lists, unless
// ReadOptions.Listed does. All are counted.
const maxRejections = 100

// minExamples is how many warnings of one kind are listed; a tenth of ReadOptions.Listed, if that is more.
const minExamples = 3

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
	Name string
	// Shown is the name in messages: assets.csv for assets.ndjson.
	Shown                    string
	Rows, Accepted, Rejected int
	missing                  bool
	// Warned counts what is ignored or changed: unknown files, fields and columns, each once; members,
	// native coins and other values that cannot be used; rows with a text that was cleaned.
	Warned int
	// Rejections are the first rows that were set aside, and Warnings the first of Warned, at most
	// ReadOptions.Listed of each.
	Rejections, Warnings []Problem
	// Spread says that the file is not lines but one array, or objects over several lines.
	// Rejections then has the first line only.
	Spread bool
}

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
