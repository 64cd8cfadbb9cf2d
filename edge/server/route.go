package server

import (
	"bytes"
	"net/http"
	"strings"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/suggest"
)

// Route is the kind of a request, as recorded in logs and metrics. The first routes are the endpoints, in the
// order of package query.
type Route uint8

const (
	// RouteStatic is a file of Config.Static.
	RouteStatic Route = query.Endpoints + iota
	// RouteOptions is OPTIONS on any path.
	RouteOptions
	// RouteUnknown is any other path or method.
	RouteUnknown
	// RouteUnread is a request that could not be read.
	RouteUnread
	// RouteNotYet is a request for a snapshot that has not arrived at this edge, or for a view that only
	// later snapshots have. It is separate from the endpoint's route, because its 503 is not an error of the
	// service, and the second that it waits says nothing about the endpoint's latency (INTERFACE.md, "Pinned
	// paging").
	RouteNotYet
	// RouteEvents is an event stream. Its duration ends with the head of the answer.
	RouteEvents
	// RouteFiles is the list of files, or a file. Its duration ends with the head of the answer.
	RouteFiles
	// RouteCSV is an endpoint's table.
	RouteCSV

	// Routes is the number of routes. The endpoints of Config.Dialect follow them, in their order.
	Routes       = int(iota + query.Endpoints)
	firstForeign = Route(Routes)
)

// Name returns the name of the route: an endpoint's name, or static, options, unknown, unread, future_pin,
// events, files or csv.
func (r Route) Name() string {
	if r < query.Endpoints {
		return query.Endpoint(r).Name()
	}
	return [...]string{"static", "options", "unknown", "unread", "future_pin", "events", "files",
		"csv"}[r-query.Endpoints]
}

// routeName is like Route.Name, but also covers the endpoints of the dialect.
func (r *Request) routeName() string {
	if r.route >= firstForeign {
		return r.dialect.Endpoints[r.route-firstForeign]
	}
	return r.route.Name()
}

// ownFault reports whether an answer is an error of the service itself. For an unread request, a 503 only
// means that its address has too many connections.
func ownFault(r Route, status int) bool {
	return status >= http.StatusInternalServerError && r != RouteNotYet && r != RouteUnread
}

// costsOne reports whether each request of the route costs exactly one token.
func (r Route) costsOne() bool {
	switch query.Endpoint(r) {
	case query.Markets, query.History, query.Search, query.Candles, query.Prices, query.Changes:
		return false
	}
	return r < query.Endpoints
}

// String returns the name of the route.
func (r Route) String() string { return r.Name() }

var (
	apiPrefix = []byte("/openapi/v1/")
	pinPrefix = []byte("/at/")
)

const (
	csvSuffix  = ".csv" // the suffix of the paths of tables
	eventsPath = "/openapi/v1/events"
	noticePath = "/notice.json"
	feedPath   = "/changes.atom"
)

// endpointNames are the parts of served paths that follow apiPrefix.
var endpointNames = func() []string {
	names := []string{"events", filesName}
	for e := range query.Endpoint(query.Endpoints) {
		names = append(names, e.Name())
		if e.HasCSV() {
			names = append(names, e.Name()+csvSuffix)
		}
	}
	return names
}()

// notFoundAt returns the 404 for a path. It suggests the path that the client probably meant, which may
// differ in letter case, slashes, a plural, the prefix, or a few letters.
func notFoundAt(path []byte) *problem {
	const longest = 64 // no served path is longer
	if len(path) > longest {
		return pathNotFound
	}
	name := strings.Trim(strings.ToLower(string(path)), "/")
	for _, prefix := range []string{"openapi/", "api/", "v1/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if p := nearPaths[suggest.Likely(name, endpointNames)]; p != nil {
		return p
	}
	return pathNotFound
}

// headerTime and pathTime are the formats in which answers write a snapshot's time in a header and in a
// path. pathDate is the beginning of another format that paths may use (INTERFACE.md, "Pinned paging").
const (
	headerTime = "2006-01-02T15:04:05Z"
	pathTime   = "20060102T150405Z"
	pathDate   = "2006-01-02"
)

// kind is the kind of a target.
type kind uint8

const (
	nothing kind = iota
	static
	notice
	feed
	// The following kinds need a key.
	listing // an endpoint of package query
	foreign // an endpoint of Config.Dialect
	eventStream
	fileList
	file
)

func (k kind) needsKey() bool { return k >= listing }

// target is the resource at the path of a request.
type target struct {
	kind     kind
	route    Route
	endpoint query.Endpoint // the endpoint of a listing
	csv      bool           // the listing is a table
	page     *staticFile
	name     []byte // the name of a file, or the path of a foreign endpoint after the prefix
	pin      []byte // the pin in the path, which has the form of a time, or nil
}

// find returns the target at a path. It compares paths byte by byte as sent.
func (s *Server) find(path []byte) target {
	if d := s.dialectAt(path); d != nil {
		behind := path[len(d.Prefix):]
		if e, ok := d.EndpointAt(behind); ok {
			return target{kind: foreign, route: firstForeign + Route(e), name: behind}
		}
	}
	if s.streams != nil && string(path) == eventsPath {
		return target{kind: eventStream, route: RouteEvents}
	}
	if name, pin, ok := nameAt(path); ok {
		if e, ok := query.EndpointNamed(name); ok {
			return target{kind: listing, route: Route(e), endpoint: e, pin: pin}
		}
		if of, ok := bytes.CutSuffix(name, []byte(csvSuffix)); ok {
			if e, ok := query.EndpointNamed(of); ok && e.HasCSV() {
				return target{kind: listing, route: RouteCSV, endpoint: e, csv: true, pin: pin}
			}
		}
		if of, rest, _ := bytes.Cut(name, slash); s.cfg.Files != nil && string(of) == filesName {
			switch {
			case len(rest) > 0:
				return target{kind: file, route: RouteFiles, name: rest, pin: pin}
			case len(name) == len(filesName):
				return target{kind: fileList, route: RouteFiles, pin: pin}
			}
		}
	}
	if page := s.static[string(path)]; page != nil {
		return target{kind: static, route: RouteStatic, page: page}
	}
	if s.cfg.Notice != nil && string(path) == noticePath {
		return target{kind: notice, route: RouteStatic}
	}
	if s.cfg.Feed != nil && string(path) == feedPath {
		return target{kind: feed, route: RouteStatic}
	}
	return target{kind: nothing, route: RouteUnknown}
}

// nameAt returns the part of a path after apiPrefix, and the pin before it.
func nameAt(path []byte) (name, pin []byte, ok bool) {
	if rest, found := bytes.CutPrefix(path, pinPrefix); found {
		end := max(bytes.IndexByte(rest, '/'), 0)
		pin, path = rest[:end], rest[end:]
		if !query.HasForm(pin, pathTime) && !query.HasForm(pin[:min(len(pin), len(pathDate))], pathDate) {
			return nil, nil, false
		}
	}
	name, ok = bytes.CutPrefix(path, apiPrefix)
	return name, pin, ok
}

// splitTarget splits a request target into path and query, both as sent. A target may have the absolute form
// http://host/path, which every server must accept. Then the path begins after the authority, and a missing
// path means "/".
func splitTarget(target []byte) (path, query []byte) {
	path, query, _ = bytes.Cut(target, []byte{'?'})
	if len(path) > 0 && path[0] == '/' {
		return path, query
	}
	if i := bytes.Index(path, []byte("://")); i > 0 {
		path = path[i+len("://"):]
		if i = bytes.IndexByte(path, '/'); i < 0 {
			return []byte("/"), query
		}
		return path[i:], query
	}
	return path, query
}
