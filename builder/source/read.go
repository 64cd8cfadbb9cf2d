package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/marketdata/builder/market"
)

// MaxLine is the maximum length of a line in bytes, excluding its line ending and a byte order mark
// (FEED.md, "Files"). It also limits the size of feed.json.
const MaxLine = 1 << 20

// ReadOptions are the options of Read. The zero value is valid.
type ReadOptions struct {
	// Known and Owner look up all ids ever assigned, by collection ("assets", "exchanges",
	// "categories", "chains"). Known returns the id of a key, and Owner returns the key of an id. A
	// row whose given id contradicts them is set aside (FEED.md, "Bad input").
	Known func(collection, key string) (id uint64, ok bool)
	Owner func(collection string, id uint64) (key string, ok bool)
	// Progress, if not nil, is called with the number of bytes read from a file, and the file's
	// size, which is -1 if unknown.
	Progress func(file string, read, total int64)
	// Listed is the maximum number of rejections, and of warnings, that the report lists for each
	// file. 0 means 100.
	Listed int
	// GoOn makes Read read all files for the report, even after one fails.
	GoOn bool
}

// Read reads a feed. It sets aside every row that cannot be used according to FEED.md. The report
// counts these rows and says why. Rows without an id have ID 0 in the result, so that the ledger
// can give them one.
//
// Read returns an error if there is no feed, because feed.json or assets.ndjson is missing, or
// because a file cannot be read to its end. It returns ErrReplaced if feed.json has changed since
// the first file was read. With an error, the report describes the rows read so far.
func Read(ctx context.Context, files Files, opts ReadOptions) (*market.Feed, *Report, error) {
	feed := &market.Feed{}
	info, failed := readInfoFile(ctx, files)
	if failed == nil {
		feed.Database, feed.Time, failed = parseInfo(files, info)
	}
	if failed != nil && !opts.GoOn {
		return nil, &Report{}, failed
	}
	r := &reader{
		files: files, opts: opts, feed: feed, report: &Report{Files: make([]FileReport, 0, len(rowFiles))},
		lines: lines{buf: bufio.NewReaderSize(nil, lineBuffer)},
	}
	if p, ok := files.(Provenance); ok {
		r.report.Parts = p.Parts()
	}
	rows := []func() accepter{r.assets, r.quotes, r.exchanges, r.categories, r.chains, r.rates}
	for i, name := range rowFiles {
		err := r.file(ctx, name, rows[i])
		if name == AssetsFile {
			r.assetProblems, r.assetTable = r.now, r.row.table
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", shownName(files, name), err))
			if !opts.GoOn || ctx.Err() != nil || name == AssetsFile {
				break // without assets, every reference to an asset would be wrong
			}
		}
	}
	if info != nil && ctx.Err() == nil {
		failed = cmp.Or(checkInfo(ctx, files, info), failed)
	}
	r.unknownFiles()
	r.settleContracts()
	if failed != nil {
		return nil, r.report, failed
	}
	return feed, r.report, nil
}

// rowFiles are the files with rows, in reading order. Assets come first, since other files refer to
// them.
var rowFiles = []string{AssetsFile, QuotesFile, ExchangesFile, CategoriesFile, ChainsFile, RatesFile}

// shownName returns the name by which messages refer to a feed file.
func shownName(files Files, name string) string {
	if n, ok := files.(interface{ Shown(name string) string }); ok {
		return n.Shown(name)
	}
	return name
}

// ReadInfo reads feed.json, which names the database of the feed and its time.
func ReadInfo(ctx context.Context, files Files) (database string, t time.Time, err error) {
	info, err := readInfoFile(ctx, files)
	if err != nil {
		return "", t, err
	}
	return parseInfo(files, info)
}

// checkInfo returns ErrReplaced if feed.json is missing or its contents differ from the given ones.
func checkInfo(ctx context.Context, files Files, before []byte) error {
	now, err := readInfoFile(ctx, files)
	if errors.Is(err, errMissing) || err == nil && !bytes.Equal(now, before) {
		return ErrReplaced
	}
	return err
}

var errMissing = errors.New("missing, and a feed must have it")

// readInfoFile returns the contents of feed.json.
func readInfoFile(ctx context.Context, files Files) ([]byte, error) {
	f, err := files.Open(ctx, InfoFile)
	if errors.Is(err, fs.ErrNotExist) {
		hint := fmt.Sprintf("such as %s", bytes.TrimSpace(Info("mine", time.Unix(1795255800, 0))))
		if like := namedLike(files, AssetsFile); strings.HasPrefix(like, csvName(AssetsFile)) {
			hint = "there is " + like
		}
		err = fmt.Errorf("%w: %s", errMissing, hint)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shownName(files, InfoFile), err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxLine+1))
	if err == nil && len(b) > MaxLine {
		err = fmt.Errorf("longer than %d bytes", MaxLine)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shownName(files, InfoFile), err)
	}
	return b, nil
}

// parseInfo parses feed.json, which must have format 1, a database and a time.
func parseInfo(files Files, b []byte) (database string, t time.Time, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", shownName(files, InfoFile), err)
		}
	}()
	const format, databaseField, timeField = 0, 1, 2
	o := newObject("", 3, "format", "database", "time")
	var r row
	b = bytes.TrimPrefix(b, byteOrderMark)
	if !utf8.Valid(b) {
		return "", t, errUTF8
	}
	r.start(b, o)
	if string(o.values[format]) != "1" {
		r.fail(o, format, "want 1, a number: the only format there is")
	}
	database = string(r.required(o, databaseField))
	text := r.required(o, timeField)
	if t, err = ParseTime(text); err != nil {
		r.fail(o, timeField, "%w", err)
	}
	if e, ok := r.err.(*fieldError); ok {
		p := Problem{Field: e.field, Reason: e.Error(), Value: shorten(e.value)}
		if e.value == nil {
			p.Suggestion = meantBy(e.field, o.unknownNames())
		}
		return "", t, errors.New(p.Text())
	}
	return database, t, r.err
}

// reader is the state while a feed is being read.
type reader struct {
	files  Files
	opts   ReadOptions
	feed   *market.Feed
	report *Report
	now    problems

	lines lines
	row   row

	// directory maps the keys of assets to indices of feed.Assets.
	directory map[string]int32

	platformNames *object
	platformsOf   map[string]*platform // by name
	addresses     map[uint64]int32     // the first asset that claims a contract, by the hash of the contract
	contested     []claim
	found         []found

	// The following fields describe the assets file. settleContracts needs them after the quotes
	// have been read. assetLines are the line numbers of accepted rows.
	assetLines    []int32
	assetProblems problems
	assetTable    *columns
}

// accepter adds the rows of one file to the feed. accept adds the row whose fields are in object.
// If it returns an error, it has changed nothing.
type accepter struct {
	object *object
	within []*object // the objects nested in object
	accept func(o *object) error
}

// file reads the rows of one file.
func (r *reader) file(ctx context.Context, name string, rows func() accepter) error {
	r.report.Files = append(r.report.Files, FileReport{Name: name, Shown: shownName(r.files, name)})
	report := &r.report.Files[len(r.report.Files)-1]
	r.now = problems{
		FileReport: report, most: cmp.Or(r.opts.Listed, maxRejections), fields: map[string]int{},
		kinds: map[string]*kind{},
	}
	r.row.table = nil
	f, err := r.files.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		report.missing = true
		return r.missing(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	w := watch(ctx, f, name, r.opts.Progress)
	if err := r.lines.reset(w); err != nil {
		return err
	}
	a := rows()
	if t, ok := f.(tabular); ok {
		r.row.table = r.unknownColumns(t, a)
	}
	for used := false; ; {
		line, err := r.lines.next()
		if err == io.EOF {
			if used {
				r.unended(f)
			}
			return nil
		}
		tooLong := errors.Is(err, errLineTooLong)
		if err != nil && !tooLong {
			return fmt.Errorf("line %d: %w", r.lines.number, err)
		}
		if !tooLong && isBlank(line) {
			used = false
			continue
		}
		report.Rows++
		if a.object.clear(); !tooLong {
			err = r.accept(line, a)
		}
		if used = err == nil; used {
			report.Accepted++
			r.warnRow(a)
		} else {
			r.reject(a, line, err)
		}
		if len(a.object.unknown) > 0 {
			r.unknownFields(a)
		}
	}
}

// missing returns an error if the file is required in every feed.
func (r *reader) missing(name string) error {
	if name != AssetsFile {
		return nil
	}
	if like := namedLike(r.files, r.now.Shown); like != "" {
		return fmt.Errorf("%w; there is %s", errMissing, like)
	}
	return errMissing
}

var errUTF8 = errors.New("not JSON: not valid UTF-8")

func (r *reader) accept(line []byte, a accepter) error {
	if !utf8.Valid(line) {
		return errUTF8
	}
	if r.row.start(line, a.object); r.row.err != nil {
		a.object.clear()
		if r.row.table != nil { // a table turns a line that is not a row into a string with the reason
			return errors.New(string(r.row.unquote(bytes.TrimSpace(line))))
		}
		if r.row.err == errNotObject {
			return fmt.Errorf("%w: %s", errNotObject, shorten(line))
		}
		return r.row.err
	}
	return a.accept(a.object)
}

// watchedReader reports its progress, and fails once its context is canceled.
type watchedReader struct {
	ctx         context.Context
	r           io.Reader
	file        string
	read, total int64
	progress    func(file string, read, total int64)
}

// watch returns a reader that reports progress while a feed file is read. progress may be nil.
func watch(ctx context.Context, r io.Reader, file string, progress func(string, int64, int64)) *watchedReader {
	w := &watchedReader{ctx: ctx, r: r, file: file, total: -1, progress: progress}
	if sized, ok := r.(interface{ Size() int64 }); ok {
		w.total = sized.Size()
	}
	return w
}

func (w *watchedReader) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.r.Read(p)
	w.read += int64(n)
	if w.progress != nil {
		w.progress(w.file, w.read, w.total)
	}
	return n, err
}

var (
	byteOrderMark  = []byte("\xef\xbb\xbf")
	errLineTooLong = fmt.Errorf("not JSON: the line is longer than %d bytes", MaxLine)
)

// lineBuffer is the size of a buffer for the longest line with its CR and LF.
const lineBuffer = MaxLine + 2

// lines reads a file line by line, in lineBuffer bytes of memory.
type lines struct {
	buf     *bufio.Reader
	number  int  // 1-based number of the line that the last call of next returned
	unended bool // that line has no line ending, so it is the last one
}

// reset starts reading another file. It skips a byte order mark.
func (l *lines) reset(r io.Reader) error {
	l.buf.Reset(r)
	l.number, l.unended = 0, false
	head, err := l.buf.Peek(len(byteOrderMark))
	if err != nil && err != io.EOF {
		return err
	}
	if bytes.Equal(head, byteOrderMark) {
		_, err = l.buf.Discard(len(head))
		return err
	}
	return nil
}

// next returns the next line without its line ending. The line is valid until the next call. After
// errLineTooLong, the next call returns the line after the long one. At the end of the file, next
// returns io.EOF.
func (l *lines) next() ([]byte, error) {
	l.number++
	line, err := l.buf.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		for err == bufio.ErrBufferFull {
			_, err = l.buf.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		return nil, errLineTooLong
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	l.unended = err == io.EOF
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > MaxLine {
		return nil, errLineTooLong
	}
	return line, nil
}

// isBlank reports whether a line consists only of JSON white space.
func isBlank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }
