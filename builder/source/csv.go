package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// csvFolder is the source csv:PATH, a folder of CSV files (FEED.md, "Tables").
type csvFolder struct{ folder }

func openCSV(_ context.Context, path string) (Source, error) {
	if path == "" {
		return nil, errors.New("want the path of a folder of CSV files: csv:PATH")
	}
	return csvFolder{folder(path)}, nil
}

func (f csvFolder) String() string { return "csv:" + string(f.folder) }

// Files follows symbolic links once, as the source feed:PATH does. If there is no feed.json, the
// feed's time is the modification time of the newest file.
func (f csvFolder) Files(ctx context.Context, t time.Time) (Files, error) {
	switch info, err := os.Stat(string(f.folder)); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f, err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file: want the folder with %s in it, such as csv:%s", f, csvName(AssetsFile),
			filepath.Dir(string(f.folder)))
	}
	files, err := f.folder.Files(ctx, t)
	if err != nil {
		return nil, err
	}
	c := &csvFiles{folder: files.(fsFiles), files: map[string]fs.FileInfo{}}
	var newest time.Time
	for _, name := range rowFiles {
		info, err := fs.Stat(c.folder.fsys, csvName(name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == AssetsFile:
			hint := "a folder of NDJSON files is feed:PATH"
			if like := namedLike(c, csvName(name)); like != "" {
				hint = "there is " + like
			}
			return nil, fmt.Errorf("%s: there is no %s (%s)", f, csvName(name), hint)
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		c.files[name] = info
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	c.info = Info("csv", newest)
	return c, nil
}

// Info returns the contents of a feed.json with this database and time.
func Info(database string, t time.Time) []byte {
	return fmt.Appendf(nil, "{\"format\":1,\"database\":%s,\"time\":%q}\n", quoted(database),
		t.UTC().Format(time.RFC3339))
}

func csvName(file string) string { return strings.TrimSuffix(file, ".ndjson") + ".csv" }

// csvFiles presents a folder of CSV files as feed files.
type csvFiles struct {
	folder fsFiles
	files  map[string]fs.FileInfo // as they were when Files returned
	info   []byte                 // generated contents of feed.json, used if the folder has none
}

// Shown returns the name by which reports refer to a file.
func (c *csvFiles) Shown(name string) string {
	if name == InfoFile {
		return name
	}
	return csvName(name)
}

func (c *csvFiles) list() []string { return c.folder.list() }

func (c *csvFiles) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == InfoFile {
		f, err := c.folder.Open(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return sizedReader{bytes.NewReader(c.info)}, nil
		}
		return f, err
	}
	was := c.files[name]
	if was == nil {
		return nil, fmt.Errorf("%s: %w", csvName(name), fs.ErrNotExist)
	}
	f, err := c.folder.fsys.Open(csvName(name))
	if err != nil {
		return nil, err
	}
	r := &csvReader{File: f, name: name, was: was, lines: lines{buf: bufio.NewReaderSize(nil, lineBuffer)}}
	r.csv = csv.NewReader(&r.line)
	r.csv.FieldsPerRecord, r.csv.ReuseRecord = -1, true
	if err := r.header(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// csvReader converts a CSV file to NDJSON, line by line, while it is being read. Line 7 becomes
// line 7, so reports name the right line. The header becomes a blank line. A line that is not a row
// becomes a JSON string with the reason, and the feed reader sets it aside.
type csvReader struct {
	fs.File
	name   string // the file's name in the feed
	was    fs.FileInfo
	lines  lines
	line   bytes.Reader
	csv    *csv.Reader
	names  []string
	table  *Table
	values [][]byte
	out    []byte // converted bytes that have not been read
	buf    []byte // the memory used by out
}

// Columns returns the names from the first line.
func (r *csvReader) Columns() (names []string, header int) { return r.names, 1 }

// Unended reports whether the line that was read last has no line ending.
func (r *csvReader) Unended() bool { return r.lines.unended }

// header reads the column names.
func (r *csvReader) header(ctx context.Context) error {
	err := r.lines.reset(&watchedReader{ctx: ctx, r: r.File})
	if err != nil {
		return err
	}
	line, err := r.lines.next()
	if err == io.EOF {
		return errors.New("empty: want a line with the names of the columns")
	}
	var names []string
	switch {
	case err == nil && bytes.IndexByte(line, 0) >= 0: // Excel's "Unicode text"
		err = errors.New("it looks like UTF-16; save it as UTF-8")
	case err == nil && bytes.IndexByte(line, '\r') >= 0:
		// Excel's "CSV (Macintosh)" format: every row would be read as more columns of the header,
		// and the file would have no rows.
		err = errors.New("its lines end in CR alone; end lines in LF, or CR LF")
	case err == nil:
		names, err = r.cells(line)
	}
	if err == nil {
		r.names = slices.Clone(names)
		r.values = make([][]byte, len(names))
		r.table, err = NewTable(r.name, r.names)
	}
	if err != nil {
		return fmt.Errorf("line 1, the names of the columns: %w", err)
	}
	r.out = []byte("\n")
	return nil
}

// cells splits a line into cells. A quoted cell must end on its line. Otherwise a missing quote
// would swallow all the following lines.
func (r *csvReader) cells(line []byte) ([]string, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("the line is not valid UTF-8")
	}
	r.line.Reset(line)
	cells, err := r.csv.Read()
	if perr, ok := errors.AsType[*csv.ParseError](err); ok {
		switch perr.Err {
		case csv.ErrQuote:
			err = errors.New("a quoted cell has no end on this line, or text after it: a row is one line, and a quote " +
				"in a quoted cell is doubled")
		case csv.ErrBareQuote:
			err = errors.New("a quote in a cell that does not begin with one: quote the cell, and double its quotes")
		default:
			err = perr.Err
		}
		return nil, fmt.Errorf("byte %d: %w", perr.Column, err)
	}
	return cells, err
}

// csvChunk is the minimum number of bytes that Read converts in one step.
const csvChunk = 32 << 10

func (r *csvReader) Read(p []byte) (int, error) {
	if len(r.out) == 0 {
		r.buf = r.buf[:0]
		for len(r.buf) < csvChunk {
			line, err := r.lines.next()
			if err == io.EOF && len(r.buf) > 0 {
				break
			}
			if err == io.EOF {
				return 0, r.end()
			}
			if err != nil && !errors.Is(err, errLineTooLong) {
				return 0, err
			}
			r.buf = r.appendLine(r.buf, line, err)
		}
		r.out = r.buf
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// appendLine appends the converted line to dst. err is the error from reading the line.
func (r *csvReader) appendLine(dst, line []byte, err error) []byte {
	if err == nil && isBlank(line) {
		return append(dst, '\n')
	}
	var cells []string
	if err == nil {
		cells, err = r.cells(line)
	}
	if err == nil && len(cells) != len(r.names) {
		err = fmt.Errorf("the row has %d cells, and the first line names %d columns", len(cells), len(r.names))
	}
	if errors.Is(err, errLineTooLong) {
		err = fmt.Errorf("the line is longer than %d bytes", MaxLine)
	}
	if err != nil {
		return append(append(dst, quoted(err.Error())...), '\n')
	}
	for i, cell := range cells {
		if r.values[i] = nil; cell != "" {
			r.values[i] = Value(r.names[i], []byte(cell))
		}
	}
	return r.table.AppendLine(dst, r.values)
}

// end returns io.EOF, unless the file has changed since Files was called.
func (r *csvReader) end() error {
	info, err := r.Stat()
	if err != nil {
		return err
	}
	if info.Size() != r.was.Size() || !info.ModTime().Equal(r.was.ModTime()) {
		return ErrReplaced
	}
	return io.EOF
}
