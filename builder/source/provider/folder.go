package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
)

// Answer is a provider's answer for a part.
type Answer struct {
	// Fetched is the time at which the provider last sent or confirmed (304) the answer. It is zero
	// if the time is unknown.
	Fetched time.Time
	// Gone means that the item does not exist (404 or 410). In that case there are no pages.
	Gone bool
	// Pages has exactly one page if the part is not divided into pages.
	Pages []Page

	at      string // Part.At
	reduced bool   // whether Part.Reduce was applied
}

// Page is one response of an answer.
type Page struct {
	// Body is the body as the provider sent it, unless Part.Reduce was applied.
	Body []byte
	headers

	rows int // as Part.Check counted them
}

// headers are the validators of a page.
type headers struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// Rows returns the rows on all pages, which Part.Check has accepted. It returns none if a is nil.
// It omits a row whose id occurred on an earlier page, since such a row moved between two requests.
func (a *Answer) Rows() []Row {
	if a == nil {
		return nil
	}
	var list []Row
	seen := map[string]bool{}
	for _, page := range a.Pages {
		from := len(list)
		body, err := at(page.Body, a.at)
		if err != nil {
			panic(fmt.Sprintf("BUG: rows that were not checked: %v", err))
		}
		for _, row := range Rows(body) {
			if !seen[row.Fields.ID()] {
				list = append(list, row)
			}
		}
		for _, row := range list[from:] {
			if id := row.Fields.ID(); id != "" {
				seen[id] = true
			}
		}
	}
	return list
}

// Object returns the members of an answer that is an object. It returns none if a is nil.
func (a *Answer) Object() Fields {
	if a == nil || len(a.Pages) == 0 {
		return nil
	}
	body, _ := at(a.Pages[0].Body, a.at)
	o, _ := Object(body)
	return o
}

// rows returns the number of rows on all pages of an answer.
func (a *Answer) rows() (n int) {
	for _, p := range a.Pages {
		n += p.rows
	}
	return n
}

// folder is a recording or a cache. The package comment describes its layout.
type folder struct {
	dir    string
	source string // the name of the provider
	index  index
}

// indexFile lists the contents of a folder. It is written after the files that it names.
const indexFile = "recording.json"

// maxIndex is the maximum size of recording.json. It suffices for several hundred thousand parts.
const maxIndex = 64 << 20

// index is the content of recording.json.
type index struct {
	Format int                   `json:"format"`
	Source string                `json:"source"`
	Time   time.Time             `json:"time"`
	Parts  map[string]indexEntry `json:"parts"`
	// Failing maps the names of the failing parts to their failures. Only the index of a cache has
	// this field.
	Failing map[string]failure `json:"failing,omitempty"`
}

type indexEntry struct {
	Fetched time.Time   `json:"fetched"`
	Gone    bool        `json:"gone,omitempty"`
	Pages   []indexPage `json:"pages,omitempty"`
}

type indexPage struct {
	File   string           `json:"file"`
	Size   int64            `json:"size"`
	SHA256 artifacts.Digest `json:"sha256"`
	headers
}

// openFolder reads recording.json, if it exists.
func openFolder(dir, source string) (*folder, error) {
	f := emptyFolder(dir, source)
	b, err := durable.ReadFile(filepath.Join(dir, indexFile), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	i := f.index
	i.Format, i.Source = 0, ""
	switch err := json.Unmarshal(b, &i); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	case i.Format != 1:
		return nil, fmt.Errorf("%s: format %d: want 1, the only one there is", indexFile, i.Format)
	case i.Source != source:
		return nil, fmt.Errorf("%s: recorded from %q, not from %s", indexFile, i.Source, source)
	}
	if i.Parts == nil || i.Failing == nil {
		return nil, fmt.Errorf("%s: null where an object is wanted", indexFile)
	}
	f.index = i
	return f, nil
}

func emptyFolder(dir, source string) *folder {
	return &folder{
		dir: dir, source: source,
		index: index{Format: 1, Source: source, Parts: map[string]indexEntry{}, Failing: map[string]failure{}},
	}
}

// load reads and checks the answer for a part. It returns fs.ErrNotExist if there is none.
func (f *folder) load(p *Part) (a *Answer, err error) {
	if e, ok := f.index.Parts[p.Name]; ok {
		a, err = f.loadIndexed(p, e)
	} else {
		a, err = f.loadPlain(p)
	}
	if err != nil {
		return nil, err
	}
	a.at = p.At
	for n := range a.Pages {
		page := &a.Pages[n]
		if page.rows, err = p.check(page.Body); err != nil {
			return nil, fmt.Errorf("%s: %w", fileName(p, n+1), err)
		}
	}
	return a, p.checkRows(a)
}

// loadPlain reads an answer that recording.json does not mention.
func (f *folder) loadPlain(p *Part) (*Answer, error) {
	var a Answer
	for n := 1; ; n++ {
		b, err := f.find(p, n)
		if errors.Is(err, fs.ErrNotExist) && n > 1 {
			return &a, nil
		}
		if err != nil {
			return nil, err
		}
		a.Pages = append(a.Pages, Page{Body: b})
		if p.Pager == nil {
			return &a, nil
		}
	}
}

func (f *folder) loadIndexed(p *Part, e indexEntry) (*Answer, error) {
	a := &Answer{Fetched: e.Fetched, Gone: e.Gone}
	if !e.Gone && len(e.Pages) == 0 {
		return nil, fmt.Errorf("%s: part %s has no pages", indexFile, p.Name)
	}
	for _, page := range e.Pages {
		name := page.File
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s: %.80q is not a file of this folder", indexFile, name)
		}
		b, err := durable.ReadFile(filepath.Join(f.dir, name), maxBody)
		if err != nil {
			return nil, err
		}
		if artifacts.Sum(b) != page.SHA256 {
			return nil, fmt.Errorf("%s does not match its digest in %s; after a change by hand, remove that "+
				"file", name, indexFile)
		}
		a.Pages = append(a.Pages, Page{Body: b, headers: page.headers})
	}
	return a, nil
}

// find reads page n of a part under any of the names that its file may have.
func (f *folder) find(p *Part, n int) ([]byte, error) {
	name := fileName(p, n)
	b, err := durable.ReadFile(filepath.Join(f.dir, name), maxBody)
	if !errors.Is(err, fs.ErrNotExist) || n > 1 || strings.Contains(p.Name, "/") {
		return b, err
	}
	plain := escapeName(p.Name)
	if p.Pager != nil {
		b, err = durable.ReadFile(filepath.Join(f.dir, plain+".json"), maxBody)
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	// Use NAME-anything.json if there is exactly one such file. Glob runs inside the folder,
	// because the folder's own name may contain special characters. Part names contain none.
	like, globErr := fs.Glob(os.DirFS(f.dir), plain+"-*.json")
	if globErr == nil && len(like) == 1 {
		return durable.ReadFile(filepath.Join(f.dir, like[0]), maxBody)
	}
	return nil, err
}

// save writes an answer. The change takes effect with commit. In a cache, a file's name contains a
// part of its digest, so the previous answer stays until sweep removes it.
func (f *folder) save(p *Part, a *Answer, cached bool) error {
	e := indexEntry{Fetched: a.Fetched.UTC(), Gone: a.Gone}
	for n, page := range a.Pages {
		name, sum := fileName(p, n+1), artifacts.Sum(page.Body)
		if cached {
			name = strings.TrimSuffix(name, ext) + "." + sum.String()[:32] + ext
		}
		if err := putFile(filepath.Join(f.dir, name), page.Body); err != nil {
			return err
		}
		e.Pages = append(e.Pages, indexPage{name, int64(len(page.Body)), sum, page.headers})
	}
	f.index.Parts[p.Name] = e
	return nil
}

// renew records that an answer was still valid at a later time. It reports whether the folder has
// the answer.
func (f *folder) renew(p *Part, fetched time.Time) bool {
	e, ok := f.index.Parts[p.Name]
	if ok {
		e.Fetched = fetched.UTC()
		f.index.Parts[p.Name] = e
	}
	return ok
}

// commit writes recording.json.
func (f *folder) commit(t time.Time) error {
	f.index.Time = t.UTC()
	b, err := json.MarshalIndent(&f.index, "", "\t")
	if err != nil {
		return err
	}
	return putFile(filepath.Join(f.dir, indexFile), append(b, '\n'))
}

// sweepAfter is the minimum age of a file that sweep removes. A build in another process that uses
// this folder may have saved a younger file and not committed it yet.
const sweepAfter = 10 * time.Minute

// sweep removes part files that recording.json does not name, and files that a killed process left
// incomplete.
func (f *folder) sweep() error {
	named, parts := map[string]bool{}, map[string]bool{}
	for name, e := range f.index.Parts {
		parts[escapeName(name)] = true
		for _, page := range e.Pages {
			named[filepath.Clean(page.File)] = true
		}
	}
	return fs.WalkDir(os.DirFS(f.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		part, _, _ := strings.Cut(path, ".")
		ours := parts[part] && strings.HasSuffix(path, ext) || strings.HasPrefix(d.Name(), durable.Prefix)
		if !ours || named[path] || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err == nil && time.Since(info.ModTime()) > sweepAfter {
			err = os.Remove(filepath.Join(f.dir, path))
		}
		if errors.Is(err, fs.ErrNotExist) { // another process removed it first
			return nil
		}
		return err
	})
}

const ext = ".json"

// fileName returns the name of the file for page n of a part. n counts from 1.
func fileName(p *Part, n int) string {
	if p.Pager == nil {
		return escapeName(p.Name) + ext
	}
	return fmt.Sprintf("%s.%d%s", escapeName(p.Name), n, ext)
}

// Escape makes an id safe for a URL path or a file path. It writes bytes other than letters,
// digits, - and _ as %XX.
func Escape(id string) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// maxName is the maximum length of an id in a file name. File systems allow 255 bytes.
const maxName = 200

// escapeName turns the name of a part, KIND or KIND/ID, into a path. It replaces an id that is too
// long for a file name with its digest.
func escapeName(name string) string {
	kind, id, found := strings.Cut(name, "/")
	if !found {
		return Escape(kind)
	}
	id = Escape(id)
	if len(id) > maxName {
		id = artifacts.Sum([]byte(id)).String()
	}
	return filepath.Join(Escape(kind), id)
}

// putFile replaces a file atomically and waits for the disk, since recording.json must not become
// durable before the files that it names.
func putFile(path string, b []byte) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return durable.WriteFile(path, bytes.NewReader(b), 0o644)
}
