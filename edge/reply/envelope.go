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

// work is the scratch memory for one answer. It is reused; its contents are valid until the
// next use.
type work struct {
	finder   rows.Finder
	snapshot *snapshot.Snapshot // that answers; nil: there is none yet
	modified []byte             // Last-Modified
	rowsEnd  int                // where what follows the rows begins in Body
	notFound []byte             // X-Not-Found
	coded    []byte             // Body in a coding
	key      []byte             // of the answer cache
	etag     []byte
	csv      bool   // the answer is a table
	cells    []byte // scratch for the text of a cell
	counters *counters
}

// answerFrom sets the snapshot that answers.
func (w *work) answerFrom(s *snapshot.Snapshot) { w.snapshot, w.modified = s, s.LastModified }

// compose appends the answer to q from s to dst, which becomes w.Body. Errors are those of
// Finder.Find.
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

// appendSince appends from when the changes of a snapshot are complete.
func appendSince(dst []byte, s *snapshot.Snapshot) []byte {
	dst = append(dst, `,"since":`...)
	if s == nil {
		return append(dst, "null"...)
	}
	return append(s.Changes().Since.AppendFormat(append(dst, '"'), time.RFC3339), '"')
}

// digest returns the digest of the body that was composed: over the checksums of its rows and
// what follows the rows. A shard's rows are summed once, when it is parsed, so no row is read
// again for a tag. What precedes the rows is the same in every body that has any. Points of
// history have no checksums: where there are any, the digest is that of the whole body.
func (w *work) digest() digest {
	if w.finder.Unsummed {
		return digestOf(w.finder.Body)
	}
	w.finder.Sums = append(w.finder.Sums, w.finder.Body[w.rowsEnd:]...)
	return digestOf(w.finder.Sums)
}

// MaxNotFound bounds X-Not-Found, in bytes (INTERFACE.md, "Values not found").
const MaxNotFound = 1 << 10

// appendNotFound appends the value of X-Not-Found: the values of q that match nothing, up to
// the first that does not fit.
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

// source returns the part of the composed answer that all its codings share.
func (w *work) source(tag digest) respcache.Source {
	return respcache.Source{NotFound: w.notFound, Digest: tag, Length: len(w.finder.Body), Visited: w.finder.Visited,
		Total: w.finder.Total}
}

// newResponse returns what is sent of an answer with a body in coding c.
func (w *work) newResponse(body []byte, source *respcache.Source, c coding) *respcache.Response {
	etag := appendETag(nil, source.Digest, c)
	return respcache.NewResponse(body,
		w.appendHead(nil, http.StatusOK, c, etag, source),
		w.appendHead(nil, http.StatusNotModified, c, etag, source), etag, w.modified)
}

// admit puts the composed answer into the cache in the coding that was made of it. A nil entry means that the
// answer has no entry yet, so admit makes one; otherwise it adds the coding to entry.
func (w *work) admit(cache *respcache.Cache, entry *respcache.Entry, source respcache.Source, c coding) {
	body := w.finder.Body
	if c != identity {
		body = w.coded
	}
	response := w.newResponse(body, &source, c)
	if entry == nil {
		entry = cache.Put(respcache.NewEntry(w.key, source, int(c), response))
	}
	cache.Add(entry, int(c), response) // to one that another goroutine has put
}
