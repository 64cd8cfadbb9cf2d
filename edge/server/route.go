package server

import (
	"bytes"
	"net/http"
	"strings"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/suggest"
)

// Route is what a request was for, in logs and metrics. The first are the
// endpoints, in the order of package query.
type Route uint8

const (
	// RouteStatic: a file of Config.Static.
	RouteStatic Route = query.Endpoints + iota
	// RouteOptions: OPTIONS on any path.
	RouteOptions
	// RouteUnknown: another path, or another method.
	RouteUnknown
	// RouteUnread: what never became a request.
	RouteUnread
	// RouteNotYet: an endpoint, pinned to a snapshot that did not arrive, or
	// sorted as only a later one is. A route of its own, since its 503 is no fault
	// of the service and its second of waiting says nothing of the endpoint's speed
	// (INTERFACE.md, "Pinned paging").
	RouteNotYet
	// RouteEvents: a stream of events. Its time is that to its head.
	RouteEvents
	// RouteFiles: the list of files, or one of them. Its time is that to the head.
	RouteFiles
	// RouteCSV: an endpoint's answer as a table.
	RouteCSV

	// Routes is how many there are. Those of the endpoints of Config.Dialect follow, in its order.
	Routes       = int(iota + query.Endpoints)
	firstForeign = Route(Routes)
)

// Name returns the route's name: an endpoint's, or static, options, unknown,
// unread, future_pin, events, files or csv.
func (r Route) Name() string {
	if r < query.Endpoints {
		return query.Endpoint(r).Name()
	}
	return [...]string{"static", "options", "unknown", "unread", "future_pin", "events", "files",
		"csv"}[r-query.Endpoints]
}

// name is Route.Name for the dialect's, too.
func (r *Request) routeName() string {
	if r.route >= firstForeign {
		return r.dialect.Endpoints[r.route-firstForeign]
	}
	return r.route.Name()
}

// ownFault reports an answer that is a fault of the service itself. What never
// became a request gets a 503 where its address has too much already.
func ownFault(r Route, status int) bool {
	return status >= http.StatusInternalServerError && r != RouteNotYet && r != RouteUnread
}

// costsOne reports one of the seven endpoints whose requests cost one token each.
func (r Route) costsOne() bool {
	switch query.Endpoint(r) {
	case query.Markets, query.History, query.Search, query.Candles, query.Prices, query.Changes:
		return false
	}
	return r < query.Endpoints
}

// String is Name.
func (r Route) String() string { return r.Name() }

var (
	apiPrefix = []byte("/openapi/v1/")
	pinPrefix = []byte("/at/")
)

const (
	csvSuffix  = ".csv" // of the paths of tables
	eventsPath = "/openapi/v1/events"
	noticePath = "/notice.json"
	feedPath   = "/changes.atom"
)

// endpointNames are what stands behind apiPrefix in paths that are served.
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

// notFoundAt is the 404 for a path: it names the one that was probably meant, which differs by letter case,
// slashes, a plural, the prefix or a few letters.
func notFoundAt(path []byte) *problem {
	const longest = 64 // nothing that is served is as long
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

// How answers write the time of a snapshot in a header and in a path, and how the times
// begin that paths may have instead (INTERFACE.md, "Pinned paging").
const (
	headerTime = "2006-01-02T15:04:05Z"
	pathTime   = "20060102T150405Z"
	pathDate   = "2006-01-02"
)

// kind is what stands at a path.
type kind uint8

const (
	nothing kind = iota
	static
	notice
	feed
	// The following need a key.
	listing // an endpoint of package query
	foreign // an endpoint of Config.Dialect
	eventStream
	fileList
	file
)

func (k kind) needsKey() bool { return k >= listing }

// target is what a request is for.
type target struct {
	kind     kind
	route    Route
	endpoint query.Endpoint // of a listing
	csv      bool           // the listing is a table
	page     *staticFile
	name     []byte // of a file; of a foreign endpoint the path behind the prefix
	pin      []byte // in the path, which has the form of a time; nil: there is none
}

// find returns what stands at a path, compared byte by byte as sent.
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

// nameAt returns what stands behind apiPrefix, and the pin in front of it.
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

// splitTarget cuts a request target into path and query, both as sent. Of a
// target in absolute form (http://host/path, which every server must take) the
// path begins behind the authority; without one it is "/".
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
