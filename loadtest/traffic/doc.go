// Package traffic makes the requests of a run. It makes a mix that resembles real clients of the market-data
// API, from a scenario and the directory of the service. For any other HTTP service it sends targets from a
// file.
//
// Request number i of a run depends only on the scenario, the directory, the seed and i, so that runs can be
// repeated. There are two exceptions: a conditional request contains the last entity tag for its target, and
// a pinned request the newest snapshot seen.
package traffic
