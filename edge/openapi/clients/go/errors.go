package marketdata

import (
	"fmt"
	"time"
)

// MessageKey is the stable name of an error, for errors.Is.
type MessageKey string

func (k MessageKey) Error() string { return string(k) }

// The service's errors, for use with errors.Is, as in errors.Is(err, marketdata.ErrSnapshotGone).
const (
	ErrBadRequest          = MessageKey("BAD_REQUEST") // Message names the invalid parameter
	ErrUnauthorized        = MessageKey("UNAUTHORIZED")
	ErrNotFound            = MessageKey("NOT_FOUND")      // Global before the first snapshot
	ErrPathNotFound        = MessageKey("PATH_NOT_FOUND") // the service is older and lacks the endpoint
	ErrFileNotFound        = MessageKey("FILE_NOT_FOUND")
	ErrMethodNotAllowed    = MessageKey("METHOD_NOT_ALLOWED")
	ErrRequestTimeout      = MessageKey("REQUEST_TIMEOUT")
	ErrSnapshotGone        = MessageKey("SNAPSHOT_GONE")       // from At, Pages, Rows, Changes: start again
	ErrPreconditionFailed  = MessageKey("PRECONDITION_FAILED") // Download: the file has since been replaced
	ErrPayloadTooLarge     = MessageKey("PAYLOAD_TOO_LARGE")
	ErrRangeNotSatisfiable = MessageKey("RANGE_NOT_SATISFIABLE")
	ErrTooManyRequests     = MessageKey("TOO_MANY_REQUESTS")
	ErrHeadersTooLarge     = MessageKey("HEADERS_TOO_LARGE")
	ErrInternalError       = MessageKey("INTERNAL_ERROR")
	ErrServiceUnavailable  = MessageKey("SERVICE_UNAVAILABLE")
)

// APIError is an answer that reports an error. Use errors.As to get it, and errors.Is to compare
// its MessageKey.
type APIError struct {
	Status     int
	Code       int        // of the envelope; 0 if an intermediary answered
	MessageKey MessageKey // "" if an intermediary answered
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

// TransportError means that no complete answer from the service arrived.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return "market data service: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }
