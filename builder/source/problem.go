package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/suggest"
)

// Problem describes why a row was set aside, or a part of the feed that was ignored.
type Problem struct {
	File string `json:"file"`
	// Line counts from 1, including blank lines; 0 means the whole file. For a query result it is
	// the row number.
	Line  int `json:"line,omitempty"`
	isRow bool
	// Key is the row's key, shortened if it is long, or "" if it cannot be read.
	Key string `json:"key,omitempty"`
	// Field is the name of the field or column. Value is its content in the file, shortened.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	// Reason says what is wrong. If it concerns a field, it begins with the field's name.
	Reason string `json:"reason"`
	// Suggestion says what the author of the row may have meant, or is "" if nothing is similar.
	Suggestion string `json:"suggestion,omitempty"`
	// Rows is the number of rows with an unknown field. Line is the line of the first such row.
	Rows int `json:"rows,omitempty"`
	// More is the number of further warnings of the same kind, which are not listed.
	More int `json:"more,omitempty"`
}

func (p Problem) String() string {
	text := p.File
	switch {
	case p.isRow:
		text += fmt.Sprintf(": row %d", p.Line)
	case p.Line > 0:
		text += fmt.Sprintf(":%d", p.Line)
	}
	if p.Key != "" {
		text += fmt.Sprintf(": key %q", p.Key)
	}
	return text + ": " + p.Text()
}

// Text returns the problem without its location.
func (p Problem) Text() string {
	text := p.Reason
	if p.Rows > 1 {
		text += fmt.Sprintf(" in %d rows", p.Rows)
	}
	isKey := p.Field == "key" || p.Field == "code"
	if p.Value != "" && p.Value != `""` && (!isKey || p.Key == "") && !p.saysValue() {
		text += ": " + p.Value
	}
	if p.Suggestion != "" {
		text += "; " + p.Suggestion
	}
	if p.More > 0 {
		text += fmt.Sprintf("; and %d more like this", p.More)
	}
	return text
}

// saysValue reports whether the reason quotes the value, or begins or ends with it. A hint in the
// reason may contain the value by chance, as 12.5 contains .5.
func (p Problem) saysValue() bool {
	about := strings.TrimPrefix(p.Reason, p.Field+": ")
	return strings.Contains(p.Reason, `"`+strings.Trim(p.Value, `"`)+`"`) ||
		strings.HasPrefix(about, p.Value+" ") || strings.HasSuffix(about, " "+p.Value)
}

// didYouMean suggests word, or returns "" if word is "".
func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return "did you mean " + word + "?"
}

// maxQuoted is the maximum length, in bytes, of what reports and reasons quote from a row.
const maxQuoted = 80

// To suggest a key, Read compares the unknown key with all assets. These constants limit the number
// of such suggestions, and the number of assets that are compared.
const (
	maxKeySuggestions = 20 // per file
	maxKeysCompared   = 20_000
)

// tabular is implemented by files that are tables. header is the number of the line with the column
// names, or 0 if the table is a query result.
type tabular interface {
	Columns() (names []string, header int)
}

// columns describes the columns of a table.
type columns struct {
	names   []string
	header  int
	unknown []string
}

// problems gathers the problems of one file.
type problems struct {
	*FileReport
	most      int            // maximum number of listed problems
	fields    map[string]int // index of the warning for each unknown field; -1 if it is not listed
	kinds     map[string]*kind
	suggested int // number of keys for which a suggestion was sought
	name      []byte
}

// kind counts the listed warnings of one kind. last is the index of the last one.
type kind struct{ listed, last int }

// problem returns a Problem about the row in o, without a reason.
func (r *reader) problem(o *object) Problem {
	p := Problem{File: r.now.Shown, Line: r.lines.number, isRow: r.isRow()}
	if key := o.values[fieldKey]; key != nil && key[0] == '"' {
		p.Key = shorten(r.row.unquote(key))
	}
	return p
}

// isRow reports whether the file's lines are rows of a query result.
func (r *reader) isRow() bool { return r.row.table != nil && r.row.table.header == 0 }

// value returns a field's JSON as it appears in the file, shortened.
func (r *reader) value(raw []byte) string {
	if r.row.table != nil && len(raw) > 0 && raw[0] == '"' {
		raw = r.row.unquote(raw)
	}
	return shorten(raw)
}

// reject counts a row that was set aside, and lists it if there is room.
func (r *reader) reject(a accepter, line []byte, err error) {
	r.now.Rejected++
	first := r.now.Rows == 1 && r.row.table == nil
	if start := bytes.TrimLeft(line, " \t\r"); first && len(start) > 0 && start[0] == '[' {
		r.now.Spread = true
		cause := "not JSON"
		if errors.Is(err, errNotObject) {
			cause = errNotObject.Error()
		}
		err = errors.New(cause + " but an array: want one object a line; jq -c '.[]' FILE makes such lines")
	} else if first && string(bytes.TrimSpace(line)) == "{" {
		r.now.Spread = true
		err = errors.New("not JSON: an object over several lines: want it on one; jq -c . FILE makes such lines")
	}
	if len(r.now.Rejections) >= r.now.most || r.now.Spread && !first {
		return
	}
	p := r.problem(a.object)
	p.Reason = err.Error()
	if e, ok := err.(*fieldError); ok {
		p.Field, p.Value = e.field, r.value(e.value)
		p.Suggestion = r.suggest(a, e)
	}
	r.now.Rejections = append(r.now.Rejections, p)
}

// suggest returns a suggestion for an unusable field, or "" if there is none.
func (r *reader) suggest(a accepter, e *fieldError) string {
	switch {
	case e.err == errNoAsset:
		return r.suggestAsset(r.row.unquote(e.value))
	case choices[e.field] != nil && len(e.value) > 0 && e.value[0] == '"':
		return didYouMean(suggest.Likely(string(r.row.unquote(e.value)), choices[e.field]))
	case e.value != nil:
		return ""
	case e.field == "key" && len(a.object.unknown) == 1 && bytes.HasPrefix(a.object.unknown[0].value, []byte("[")):
		return fmt.Sprintf("the rows are in an array: jq -c '.%s[]' FILE makes lines of them",
			shorten(a.object.unknown[0].name))
	case r.row.table != nil:
		return meantBy(e.field, r.row.table.unknown)
	}
	return meantBy(e.field, a.object.unknownNames())
}

// choices lists the possible values of fields that have only a few.
var choices = map[string][]string{"status": statuses, "type": market.RateTypes}

func (o *object) unknownNames() (names []string) {
	for _, m := range o.unknown {
		names = append(names, m.of.path+string(m.name))
	}
	return names
}

// meantBy suggests renaming the unknown field that was probably meant for the missing one. It
// returns "" if there is no such field.
func meantBy(field string, unknown []string) string {
	if found := like(field, unknown); found != "" {
		return fmt.Sprintf("rename %q to %s?", shorten([]byte(found)), field)
	}
	return ""
}

// suggestAsset suggests the asset whose key was probably meant, or whose slug or symbol equals key.
// A build, which leaves ReadOptions.Listed at 0, has no time to compare all keys.
func (r *reader) suggestAsset(key []byte) string {
	r.now.suggested++
	if r.opts.Listed == 0 || r.now.suggested > maxKeySuggestions || len(r.feed.Assets) > maxKeysCompared ||
		len(key) > maxQuoted || len(bytes.Trim(key, "0123456789")) == 0 { // nobody who writes 1027 means 1028
		return ""
	}
	if i := slices.IndexFunc(r.feed.Assets, func(a market.Asset) bool {
		return strings.EqualFold(a.Slug, string(key)) || strings.EqualFold(a.Symbol, string(key))
	}); i >= 0 {
		return didYouMean(shorten([]byte(r.feed.Assets[i].Key)))
	}
	var keys []string
	for _, a := range r.feed.Assets {
		keys = append(keys, a.Key)
	}
	return didYouMean(shorten([]byte(suggest.Likely(string(key), keys))))
}

// warn counts a problem that does not set its row aside, and lists it if there is room. For each
// kind, such as a field name, it lists only a few examples. It lists all problems of kind "".
func (r *reader) warn(name string, p Problem, suggest func() string) {
	r.now.Warned++
	k := r.now.kinds[name]
	if k == nil {
		k = &kind{}
		r.now.kinds[name] = k
	}
	switch {
	case name != "" && k.listed >= max(minExamples, r.opts.Listed/10):
		r.now.Warnings[k.last].More++
	case len(r.now.Warnings) < r.now.most:
		p.Suggestion = suggest()
		k.listed, k.last = k.listed+1, len(r.now.Warnings)
		r.now.Warnings = append(r.now.Warnings, p)
	}
}

// warnRow warns about values that were dropped from the last accepted row, and about strings that
// were cleaned.
func (r *reader) warnRow(a accepter) {
	r.now.Warned += r.row.more
	if e := &r.row.cleaned; e.err != nil {
		p := r.problem(a.object)
		p.Field, p.Value, p.Reason = e.field, string(e.value), e.Error()
		r.warn("cleaned", p, noSuggestion)
	}
	for i := range r.row.dropped {
		e := &r.row.dropped[i]
		p := r.problem(a.object)
		p.Field, p.Value, p.Reason = e.field, r.value(e.value), e.Error()+"; dropped"
		kind := e.field
		if strings.HasPrefix(kind, platformsPath) {
			kind = platformsPath // one kind for all platforms, since their names are unlimited
		}
		r.warn(kind, p, func() string { return r.suggest(a, e) })
	}
}

// unknownFiles warns about files that do not belong to a feed.
func (r *reader) unknownFiles() {
	if len(r.report.Files) < len(rowFiles) {
		return // reading failed, and the error is more important
	}
	var missing []string
	for _, f := range r.report.Files {
		if f.missing {
			missing = append(missing, f.Shown)
		}
	}
	for _, name := range otherFiles(r.files) {
		r.warn("", Problem{File: name, Reason: "unknown file, ignored"}, func() string {
			return didYouMean(suggest.Likely(name, missing))
		})
	}
}

// unknownAsset warns about a member or native coin that is not in the directory. key is its key.
func (r *reader) unknownAsset(o *object, field int, key []byte) {
	p := r.problem(o)
	p.Field, p.Value = o.names[field], shorten(key)
	p.Reason = fmt.Sprintf("%s: no asset has the key %q", p.Field, p.Value)
	r.warn(p.Field, p, func() string {
		if r.row.table != nil && field != chainNative && bytes.ContainsAny(key, ",; ") {
			return "want " + listSeparator + " between keys"
		}
		return r.suggestAsset(key)
	})
}

// badTime warns about an unusable data_time, which answers will not show.
func (r *reader) badTime(o *object, value []byte) {
	p := r.problem(o)
	p.Field, p.Value = "market.data_time", r.value(value)
	p.Reason = p.Field + ": " + errTime.Error() + ", after 1970"
	r.warn(p.Field, p, noSuggestion)
}

// unended warns about a table whose last row has no line ending. The row is used. However, unlike a
// truncated JSON object, a row that was cut off within a number would look complete.
func (r *reader) unended(file any) {
	if f, ok := file.(interface{ Unended() bool }); ok && f.Unended() {
		r.warn("", Problem{File: r.now.Shown, Line: r.lines.number - 1, Reason: "the last line has no line ending: " +
			"end it, since the last cell of a file that is cut off may be wrong"}, noSuggestion)
	}
}

func noSuggestion() string { return "" }

// unknownFields warns about the unknown fields of the last row, once per name.
func (r *reader) unknownFields(a accepter) {
	for _, m := range a.object.unknown {
		r.now.name = append(append(r.now.name[:0], m.of.path...), m.name...)
		if at, seen := r.now.fields[string(r.now.name)]; seen {
			if at >= 0 {
				r.now.Warnings[at].Rows++
			}
			continue
		}
		p := r.problem(a.object)
		p.Field, p.Value, p.Rows = shorten(r.now.name), r.value(m.value), 1
		p.Reason = p.Field + ": unknown field, ignored"
		at := len(r.now.Warnings)
		r.warn("", p, func() string {
			return didYouMean(like(p.Field, a.fields(func(o *object, i int) bool { return o.values[i] == nil })))
		})
		if at == len(r.now.Warnings) {
			at = -1
		}
		if len(r.now.fields) < r.now.most {
			r.now.fields[string(r.now.name)] = at
		}
	}
}

// unknownColumns warns about columns that are not fields, and returns all columns.
func (r *reader) unknownColumns(t tabular, a accepter) *columns {
	names, header := t.Columns()
	c := &columns{names: names, header: header}
	known := a.fields(func(*object, int) bool { return true })
	absent := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return slices.Contains(names, name) })
	for _, name := range names {
		free := slices.Contains(a.within, r.platformNames) && strings.HasPrefix(name, platformsPath)
		if name == "" || free || slices.Contains(known, name) {
			continue
		}
		c.unknown = append(c.unknown, name)
		object, _, _ := strings.Cut(name, ".")
		r.now.fields[name], r.now.fields[object] = -1, -1 // so that rows cause no second warning
		p := Problem{File: r.now.Shown, Line: header, Field: shorten([]byte(name))}
		p.Reason = p.Field + ": unknown column, ignored"
		if strings.TrimSpace(name) != name {
			p.Reason = fmt.Sprintf("%q, with a space: unknown column, ignored", p.Field)
		}
		r.warn("", p, func() string { return didYouMean(like(name, absent)) })
	}
	return c
}

// like returns the one of the other names that is most similar to name or has the same meaning. It
// returns "" if there is none.
func like(name string, others []string) string {
	if found := cmp.Or(suggest.Likely(name, others), suggest.Part(name, others)); found != "" {
		return found
	}
	last := func(name string) string { return name[strings.LastIndex(name, ".")+1:] } // without the name of its object
	i := slices.IndexFunc(others, func(other string) bool {
		return slices.Contains(synonyms[last(name)], strings.ToLower(last(other))) ||
			slices.Contains(synonyms[last(other)], strings.ToLower(last(name)))
	})
	if i < 0 {
		return ""
	}
	return others[i]
}

// synonyms lists the names that other programs use for fields.
var synonyms = map[string][]string{
	"key": {"id", "asset", "coin", "code", "ticker"}, "name": {"title", "label"}, "symbol": {"ticker", "code"},
	"logo":    {"image", "icon"},
	"website": {"homepage", "url"}, "active": {"enabled"}, "price": {"usd", "last", "close", "rate"},
	"volume": {"turnover"}, "volume_24h": {"turnover"}, "members": {"coins", "assets", "tokens"},
	"native": {"coin", "currency"},
}

// fields returns the names of the fields for which the given function returns true.
func (a accepter) fields(is func(o *object, field int) bool) (names []string) {
	for _, o := range append([]*object{a.object}, a.within...) {
		for i, name := range o.names {
			if is(o, i) {
				names = append(names, o.path+name)
			}
		}
	}
	return names
}

// lister is implemented by sets of files that can list their names.
type lister interface{ list() []string }

// otherFiles returns the names of the files that do not belong to a feed, except hidden ones.
func otherFiles(files Files) []string {
	l, ok := files.(lister)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.list()), func(name string) bool { // clone it: later reads use the list, too
		return name[0] == '.' || name == shownName(files, InfoFile) ||
			slices.ContainsFunc(rowFiles, func(f string) bool { return name == shownName(files, f) })
	})
}

// namedLike returns the name of the file that was probably meant for the missing one, or "".
func namedLike(files Files, missing string) string {
	others := otherFiles(files)
	if name := csvName(missing); slices.Contains(others, name) {
		return name + ": a folder of CSV files is csv:PATH"
	}
	return suggest.Likely(missing, others)
}
