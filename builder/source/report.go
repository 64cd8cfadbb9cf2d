package source

import "unicode/utf8"

// maxRejections is the default of ReadOptions.Listed. Rejections and warnings beyond it are only
// counted.
const maxRejections = 100

// minExamples is the minimum number of listed warnings of one kind. The number is a tenth of
// ReadOptions.Listed if that is more.
const minExamples = 3

// Report says how many of a feed's rows Read accepted, and why it rejected the others.
type Report struct {
	// Files are the NDJSON files in the order of reading, including missing ones.
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
	// Shown is the name in messages, such as assets.csv for assets.ndjson.
	Shown                    string
	Rows, Accepted, Rejected int
	missing                  bool
	// Warned counts what was ignored or changed: unknown files, fields and columns, each once;
	// members, native coins and other values that cannot be used; and rows with a text that was
	// cleaned.
	Warned int
	// Rejections lists the first rows that were set aside, and Warnings the first warnings. Each
	// has at most ReadOptions.Listed entries.
	Rejections, Warnings []Problem
	// Spread means that the file does not have one object on each line, but is an array or has
	// objects over several lines. Rejections then lists only the first line.
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
