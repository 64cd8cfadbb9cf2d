package source

import "unicode/utf8"

// maxRejections is the default for ReadOptions.Listed. Rejections and warnings beyond it are
// counted but not listed.
const maxRejections = 100

// minExamples is the least value of the limit on listed warnings of one kind. The limit is a tenth of
// ReadOptions.Listed, or minExamples if that is more.
const minExamples = 3

// Report says how many of a feed's rows Read accepted, and why it rejected the others.
type Report struct {
	// Files are the NDJSON files in reading order, including missing ones.
	Files []FileReport
	// UnknownMembers and UnknownNatives count the members and native coins of accepted groups that
	// are not in the directory. BadDataTimes counts the unusable data_time values of accepted
	// exchanges. None of these sets its row aside.
	UnknownMembers, UnknownNatives, BadDataTimes int
	// Parts are the parts of a live source's feed.
	Parts []Part
}

// FileReport counts a file's rows. Blank lines do not count. Rows is Accepted plus Rejected.
type FileReport struct {
	Name string
	// Shown is the file's name in messages, such as assets.csv for assets.ndjson.
	Shown                    string
	Rows, Accepted, Rejected int
	missing                  bool
	// Warned counts what was ignored or changed. Each unknown file, field and column counts once.
	// Every unusable value counts, such as an unknown member or native coin, and so does every row
	// with a string that was cleaned.
	Warned int
	// Rejections lists the first rows that were set aside, and Warnings the first warnings. Each
	// has at most ReadOptions.Listed entries.
	Rejections, Warnings []Problem
	// Spread means that the file does not have one object per line. It is an array, or its objects
	// span several lines. Rejections then lists only the first line.
	Spread bool
}

// shorten cuts text to at most maxQuoted bytes, without splitting a character.
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
