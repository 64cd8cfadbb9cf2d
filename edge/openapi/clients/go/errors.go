package marketdata

import (
	"fmt"
	"time"
)

// MessageKey is the stable name of an error, for errors.Is.
type MessageKey string

func (k MessageKey) Error() string { return string(k) }

// The errors of the service: errors.Is(err, marketdata.ErrSnapshotGone).
const (
	ErrBadRequest          = MessageKey("BAD_REQUEST") // an invalid parameter: Message names it
	ErrUnauthorized        = MessageKey("UNAUTHORIZED")
	ErrNotFound            = MessageKey("NOT_FOUND")      // Global before the first snapshot
	ErrPathNotFound        = MessageKey("PATH_NOT_FOUND") // an older service: it lacks the endpoint
	ErrFileNotFound        = MessageKey("FILE_NOT_FOUND")
	ErrMethodNotAllowed    = MessageKey("METHOD_NOT_ALLOWED")
	ErrRequestTimeout      = MessageKey("REQUEST_TIMEOUT")
	ErrSnapshotGone        = MessageKey("SNAPSHOT_GONE")       // At, Pages, Rows, Changes: begin again
	ErrPreconditionFailed  = MessageKey("PRECONDITION_FAILED") // Download: the address has another file now
	ErrPayloadTooLarge     = MessageKey("PAYLOAD_TOO_LARGE")
	ErrRangeNotSatisfiable = MessageKey("RANGE_NOT_SATISFIABLE")
	ErrTooManyRequests     = MessageKey("TOO_MANY_REQUESTS")
	ErrHeadersTooLarge     = MessageKey("HEADERS_TOO_LARGE")
	ErrInternalError       = MessageKey("INTERNAL_ERROR")
	ErrServiceUnavailable  = MessageKey("SERVICE_UNAVAILABLE")
)

// APIError is an answer that is no success: errors.As gives it, errors.Is compares
// its MessageKey.
type APIError struct {
	Status     int
	Code       int        // of the envelope; 0 when something in between answered
	MessageKey MessageKey // likewise ""
	Message    string     // for people
	RetryAfter time.Duration
	Limit      *RateLimit
	RequestID  string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("market data service: %d %s: %s (request %s)", e.Status, e.MessageKey, e.Message, e.RequestID)
}

// Unwrap returns the MessageKey.
func (e *APIError) Unwrap() error { return e.MessageKey }

// TransportError means that no whole answer of the service arrived.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return "market data service: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }
