package server

import (
	"errors"
	"net/http"
	"strconv"

	"example.com/marketdata/edge/files"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// problem is an error answer: a row of the table in INTERFACE.md, "Errors". It must not be changed after
// newProblem has returned it.
type problem struct {
	status int // the HTTP status
	code   int // code and key are members of the envelope
	key    string
	// message is the message of the envelope: ASCII that needs no escaping in JSON.
	message string

	body []byte
}

func newProblem(status, code int, key, message string) *problem {
	p := &problem{status: status, code: code, key: key, message: message}
	p.body = p.appendBody(nil, message)
	return p
}

// appendBody appends the envelope with the given message.
func (p *problem) appendBody(dst []byte, message string) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(p.code), 10)
	dst = append(dst, `,"message":"`...)
	dst = append(dst, message...)
	dst = append(dst, `","message_key":"`...)
	dst = append(dst, p.key...)
	return append(dst, `","result":{}}`...)
}

// The following functions return problems with the usual code and key for their status.
func badRequestFor(message string) *problem {
	return newProblem(http.StatusBadRequest, 40000, "BAD_REQUEST", message)
}
func pathNotFoundFor(message string) *problem {
	return newProblem(http.StatusNotFound, 40401, "PATH_NOT_FOUND", message)
}
func unavailableFor(message string) *problem {
	return newProblem(http.StatusServiceUnavailable, 50300, "SERVICE_UNAVAILABLE", message)
}
func tooManyFor(message string) *problem {
	return newProblem(http.StatusTooManyRequests, 42900, "TOO_MANY_REQUESTS", message)
}

// The problems for errors of Config.Answer.
var (
	// noSnapshot is for /global before the first snapshot.
	noSnapshot = newProblem(http.StatusNotFound, 40400, "NOT_FOUND", "there is no snapshot yet")
	// snapshotGone is for a pinned snapshot that is no longer retained or was withdrawn.
	snapshotGone = newProblem(http.StatusGone, 41000, "SNAPSHOT_GONE",
		"the snapshot of X-Snapshot-Time is no longer retained; begin again without it")
	// changesGone is for a request whose parameter "since" is older than the time from which the changes are
	// complete.
	changesGone = newProblem(http.StatusGone, 41000, "SNAPSHOT_GONE",
		"since: older than result.since, from which the changes are complete; read the listings again, "+
			"then ask since the X-Snapshot-Time that they have")
	// pinUneven and pinAhead are for pins that no snapshot can have.
	pinUneven = badRequestFor("X-Snapshot-Time: not the time of a snapshot; it takes a whole multiple of ten minutes")
	pinAhead  = badRequestFor("X-Snapshot-Time: too far in the future; " +
		"it takes the time of a snapshot that was published")
	// snapshotLater is for a pinned snapshot that may exist, but has not arrived at this edge. It does not
	// count as an error of the service.
	snapshotLater = unavailableFor("the snapshot of X-Snapshot-Time has not arrived here; " +
		"try again, or begin again without it")
	// noView is for a view that the builder of the snapshot did not produce. It does not count as an error of
	// the service either.
	noView = unavailableFor("the snapshot does not have this sort key or endpoint yet; " +
		"try again later, or ask without it")
	// internal is for errors of the service itself.
	internal = newProblem(http.StatusInternalServerError, 50000, "INTERNAL_ERROR",
		"the service failed to answer; the request id names this failure in its log")
	// unavailable is for reply.ErrUnavailable.
	unavailable = unavailableFor("what this answer needs is unavailable; try again")
)

// errDownloads means that the key has too many downloads.
var errDownloads = errors.New("too many downloads")

// problemOf returns the problem for an error of Config.Answer.
func problemOf(err error) *problem {
	var refusal *reply.Refusal
	switch {
	case errors.As(err, &refusal):
		return &problem{status: refusal.Status, message: refusal.Message} // the dialect builds the body
	case errors.Is(err, reply.ErrNoSnapshot):
		return noSnapshot
	case errors.Is(err, snapshot.ErrGone):
		return snapshotGone
	case errors.Is(err, snapshot.ErrUneven):
		return pinUneven
	case errors.Is(err, snapshot.ErrAhead):
		return pinAhead
	case errors.Is(err, snapshot.ErrLater):
		return snapshotLater
	case errors.Is(err, reply.ErrPrecondition):
		return preconditionFailed
	case errors.Is(err, files.ErrOff):
		return noFiles
	case errors.Is(err, files.ErrNone):
		return fileNotFound
	case errors.Is(err, rows.ErrNoView):
		return noView
	case errors.Is(err, rows.ErrSince):
		return changesGone
	case errors.Is(err, errDownloads):
		return tooManyDownloads
	}
	return unavailable
}

// overLimit contains the words by which clients written for other APIs recognize a rate limit.
const overLimit = "you have exceeded the rate limit; Retry-After says in how many seconds to try again"

// The problems that the server itself detects.
var (
	badRequest = badRequestFor("")
	notHTTP    = badRequestFor("the request is not valid HTTP/1.1")
	notProxied = badRequestFor("connections from this address begin with a PROXY protocol header, in one piece; " +
		"this one does not")
	badPin = badRequestFor("X-Snapshot-Time: not a time, or sent more than once; " +
		"it takes one time as in RFC 3339, with a zone, such as 2026-11-21T10:10:00Z")
	badPathPin = badRequestFor("the path: what stands behind /at/ is no time; " +
		"it takes one such as 20261121T101000Z or 2026-11-21T10:10:00Z")
	twoPins = badRequestFor("X-Snapshot-Time: sent although the path has a time behind /at/; " +
		"it takes one of the two")
	pathNotFound = pathNotFoundFor("there is nothing at this path; /docs lists those that are served")
	// nearPaths maps the last part of a served path to the problem for paths that are similar to it.
	nearPaths = func() map[string]*problem {
		all := map[string]*problem{}
		for _, name := range endpointNames {
			all[name] = pathNotFoundFor("there is nothing at this path; /openapi/v1/" + name + " is served: " +
				"paths are compared byte by byte, without a final slash")
		}
		return all
	}()
	noFiles = newProblem(http.StatusNotFound, 40402, "FILE_NOT_FOUND",
		"the operator has not enabled files (builder run --files)")
	fileNotFound = newProblem(http.StatusNotFound, 40402, "FILE_NOT_FOUND",
		"there is no file of this name; /openapi/v1/files lists those of the newest set, and below /at/ those of a time")
	methodNotAllowed = newProblem(http.StatusMethodNotAllowed, 40500, "METHOD_NOT_ALLOWED",
		"the methods are GET, HEAD and OPTIONS")
	preconditionFailed = newProblem(http.StatusPreconditionFailed, 41200, "PRECONDITION_FAILED",
		"If-Match or If-Unmodified-Since does not hold: there is another answer now; ask again without it")
	noRange = newProblem(http.StatusRequestedRangeNotSatisfiable, 41600, "RANGE_NOT_SATISFIABLE",
		"Range: the file ends before it; Content-Range has its length")
	requestTimeout = newProblem(http.StatusRequestTimeout, 40800, "REQUEST_TIMEOUT",
		"the request did not arrive in time")
	payloadTooLarge = newProblem(http.StatusRequestEntityTooLarge, 41300, "PAYLOAD_TOO_LARGE",
		"the request has a body, and this service takes none: send parameters in the query")
	headersTooLarge = newProblem(http.StatusRequestHeaderFieldsTooLarge, 43100, "HEADERS_TOO_LARGE",
		"request line and headers are over 32 KiB, or more than 100 lines")
	tooManyRequests = tooManyFor(overLimit)
	// tooManyOpen is like tooManyRequests, for requests that need no key.
	tooManyOpen         = tooManyFor(overLimit)
	tooManyStreamsOfKey = tooManyFor("the key has as many streams of events open as it may; " +
		"close one, or try again after Retry-After")
	tooManyDownloads = tooManyFor("the key has as many downloads of files under way as it may; " +
		"wait for one, or try again after Retry-After")
	tooManyStreams = unavailableFor("too many streams of events; try again")
	tooManyConns   = unavailableFor("too many connections; try again")
)

// sendKey is the message of the 401, except below a dialect's prefix.
const sendKey = "missing, invalid or expired API key: send it in the header X-Api-Key, not in Authorization"

// queryKey is the message of the 401 for a key in the query, whatever is wrong with the key.
const queryKey = "invalid or expired API key in the query: key takes one that was made for it " +
	"(builder keys create --query), once, and none in a header beside it; send any other key in the header X-Api-Key"

// newUnauthorized returns the 401. Its message states keyRequestURL, unless that is empty.
func newUnauthorized(message, keyRequestURL string) *problem {
	if keyRequestURL != "" {
		message += "; keys are requested at " + keyRequestURL
	}
	return newProblem(http.StatusUnauthorized, 40100, "UNAUTHORIZED", message)
}
