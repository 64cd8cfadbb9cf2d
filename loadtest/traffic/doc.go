// Package traffic makes the requests of a run: a mix that resembles what
// clients of the market-data API send, from a scenario and the directory that
// the service lists, or targets from a file for any HTTP service.
//
// The i-th request of a run depends on the scenario, the directory, the seed
// and i only, so that runs can be repeated; except that a conditional request
// carries the entity tag that was last given for its target, and a pinned one
// the newest snapshot that was seen.
package traffic
