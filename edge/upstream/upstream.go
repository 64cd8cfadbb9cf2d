// Package upstream defines the states of an edge's sources: the store's snapshots and key set, and the store
// of shared limits.
package upstream

import "time"

// State says whether a source answers an edge (edge/README.md, "Listeners").
type State string

// The states.
const (
	Initializing State = "INITIALIZING" // there has been no answer yet
	Valid        State = "VALID"        // the last attempt succeeded
	// the last attempt failed, or the edge refused its result; the last valid data stays in force
	Interrupted State = "INTERRUPTED"
)

// States lists all states, for metrics.
var States = [...]State{Initializing, Valid, Interrupted}

// Status is the state of a source and its last error, as /status shows them.
type Status struct {
	State State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastError is the error of the last attempt, or "" if it succeeded.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
}

// Start returns the initial status.
func Start() Status { return Status{State: Initializing, Since: time.Now().UTC()} }

// Set sets the state, and reports whether it changed. Valid clears the last error.
func (s *Status) Set(state State) (changed bool) {
	if state == Valid {
		s.LastError, s.LastErrorAt = "", time.Time{}
	}
	if s.State == state {
		return false
	}
	s.State, s.Since = state, time.Now().UTC()
	return true
}

// Fail records an error.
func (s *Status) Fail(err error) {
	s.LastError, s.LastErrorAt = err.Error(), time.Now().UTC()
}
