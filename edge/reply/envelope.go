package reply

import (
	"net/http"
	"strconv"
	"time"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// The fixed parts of a body (INTERFACE.md, "Envelope").
const (
	bodyStart     = `{"code":0,"message":"OK","message_key":"OK","result":`
	listStart     = bodyStart + `{"items":[`
	listPage      = `],"page":`
	listTotal     = `,"total":`
	listTotalPage = `,"total_page":`
	listEnd       = `}}`
	boardEnd      = `]}}`
)

// work is the memory for composing one answer. It is reused, so its contents are valid only until the next use.
type work struct {
	finder   rows.Finder
	snapshot *snapshot.Snapshot // the source of the answer; nil if there is none yet
	modified []byte             // Last-Modified
	rowsEnd  int                // the end of the rows in finder.Body
	notFound []byte             // X-Not-Found
	coded    []byte             // the compressed body; tabulate uses the same memory
	key      []byte             // the key of the response cache
	etag     []byte
	csv      bool   // the answer is a table
	cells    []byte // memory for the text of a cell
	counters *counters
}

// answerFrom sets the snapshot that the answer comes from.
func (w *work) answerFrom(s *snapshot.Snapshot) { w.snapshot, w.modified = s, s.LastModified }

// compose composes the answer to the query q from the snapshot s. It appends the answer to dst, which becomes
// the body. It returns the errors of Finder.Find.
func (w *work) compose(dst []byte, s *snapshot.Snapshot, q *query.Query, wait time.Duration) error {
	w.finder.Body, w.notFound = append(dst, listStart...), w.notFound[:0]
	if err := w.finder.Find(s, q, wait); err != nil {
		return err
	}
	w.notFound = appendNotFound(w.notFound, q, &w.finder.Missing)
	w.rowsEnd = len(w.finder.Body)
	if w.csv {
		return w.tabulate(q)
	}
	if q.Endpoint == query.Trending || q.Endpoint == query.Search {
		w.finder.Body = append(w.finder.Body, boardEnd...)
		return nil
	}
	w.finder.Body = append(w.finder.Body, listPage...)
	w.finder.Body = strconv.AppendInt(w.finder.Body, q.Page, 10)
	w.finder.Body = append(w.finder.Body, listTotal...)
	w.finder.Body = strconv.AppendInt(w.finder.Body, int64(w.finder.Total), 10)
	w.finder.Body = append(w.finder.Body, listTotalPage...)
	w.finder.Body = strconv.AppendInt(w.finder.Body, int64(max(1, (w.finder.Total+q.Size-1)/q.Size)), 10)
	if q.Endpoint == query.Changes {
		w.finder.Body = appendSince(w.finder.Body, s)
	}
	w.finder.Body = append(w.finder.Body, listEnd...)
	return nil
}

// appendSince appends the time from which the changes of a snapshot are complete.
func appendSince(dst []byte, s *snapshot.Snapshot) []byte {
	dst = append(dst, `,"since":`...)
	if s == nil {
		return append(dst, "null"...)
	}
	return append(s.Changes().Since.AppendFormat(append(dst, '"'), time.RFC3339), '"')
}

// digest returns the digest of the composed body. It covers the checksums of the rows, and the bytes that
// follow the rows. A shard computes its rows' checksums once, when it is parsed, so computing a tag reads
// no row again. The bytes before the rows are always the same. If the body contains parts that have no
// checksums, the digest covers the whole body.
func (w *work) digest() digest {
	if w.finder.Unsummed {
		return digestOf(w.finder.Body)
	}
	w.finder.Sums = append(w.finder.Sums, w.finder.Body[w.rowsEnd:]...)
	return digestOf(w.finder.Sums)
}

// MaxNotFound is the longest value of X-Not-Found, in bytes (INTERFACE.md, "Values not found").
const MaxNotFound = 1 << 10

// appendNotFound appends the value of X-Not-Found: the values of q that match nothing, up to the first one
// that does not fit.
func appendNotFound(dst []byte, q *query.Query, missing *[rows.Filters][]int) []byte {
	texts := rows.TextsOf(q)
	for by, name := range [rows.Filters]string{rows.ByID: "id=", rows.BySlug: "slug=", rows.BySymbol: "symbol=",
		rows.ByCategory: "category=", rows.ByChain: "chain="} {
		for i, at := range missing[by] {
			before := len(dst)
			switch {
			case i > 0:
				dst = append(dst, ',')
			case before > 0:
				dst = append(append(dst, '&'), name...)
			default:
				dst = append(dst, name...)
			}
			if by == rows.ByID {
				dst = strconv.AppendInt(dst, q.IDs[at], 10)
			} else {
				dst = query.AppendEscaped(dst, texts[by][at])
			}
			if len(dst) > MaxNotFound {
				return dst[:before]
			}
		}
	}
	return dst
}

// source returns the properties of the composed answer that do not depend on the coding.
func (w *work) source(tag digest) respcache.Source {
	return respcache.Source{NotFound: w.notFound, Digest: tag, Length: len(w.finder.Body), Visited: w.finder.Visited,
		Total: w.finder.Total}
}

// newResponse returns the headers and body of an answer in coding c.
func (w *work) newResponse(body []byte, source *respcache.Source, c coding) *respcache.Response {
	etag := appendETag(nil, source.Digest, c)
	return respcache.NewResponse(body,
		w.appendHead(nil, http.StatusOK, c, etag, source),
		w.appendHead(nil, http.StatusNotModified, c, etag, source), etag, w.modified)
}

// admit adds the composed answer to the cache, in the coding that was produced. If entry is nil, admit
// creates one; otherwise it adds the coding to entry.
func (w *work) admit(cache *respcache.Cache, entry *respcache.Entry, source respcache.Source, c coding) {
	body := w.finder.Body
	if c != identity {
		body = w.coded
	}
	response := w.newResponse(body, &source, c)
	if entry == nil {
		entry = cache.Put(respcache.NewEntry(w.key, source, int(c), response))
	}
	cache.Add(entry, int(c), response) // entry may be one that another goroutine has added
}
