// Package traffic generates the requests of a run. For the market-data API, it generates a mix that resembles
// the requests of real clients, from a scenario and the service's directory. For any other HTTP service, it
// uses the requests of a targets file.
//
// Request number i of a run depends only on the scenario, the directory, the seed and i, so that runs can be
// repeated. There are three exceptions: a conditional request contains the last entity tag received for its
// target, a pinned request names the newest snapshot seen so far, and a request for prices asks for times
// before that snapshot.
package traffic
