// Package provider is the common part of the live providers of market data (packages coinpaprika,
// coingecko, coinmarketcap and coincap): a client with rate limits and retries, a cache of the last
// good answers, and recordings.
//
// A provider's package implements [Market]. It describes each thing that it requests as a [Part]
// (its URL, how long an answer counts as new, how to check an answer), asks a [Round] for the
// parts, and writes the rows as the files of a feed ([Feed]). Values are passed on as raw JSON, so
// every number stays as the provider wrote it, except the results of [Product] and [Quotient]. The
// package does not judge rows. It passes on a row that cannot be used, and the feed reader sets it
// aside, reports it, and counts it for the guard rails.
//
// There are three kinds of rounds. A live round asks the provider and keeps the last good answers.
// A replay reads a recording. A dry run only notes the requests, from which [Source.Costs] computes
// the cost of a month.
//
// # When the provider fails
//
// The client retries a request whose failure may be temporary (no connection, a timeout, a
// truncated body, an answer that fails its check, status 408, 425, 429 or 5xx). It makes at most
// four tries, with growing random pauses. All requests of the client obey Retry-After, except that
// requests for prices ignore a Retry-After in an answer to any other request. If the pause is
// longer than a build can wait, the request fails, and during the pause the others fail without
// being sent. The client does not retry a request that fails with any other status.
//
// The client reads pages until one is empty, so a short page does not end a list. A list counts as
// unavailable if its rows leave a gap in the directory of assets ([List].Of), if it has lost a
// field ([List].Has), or if a page repeats the rows of the previous one. A list in pages that is
// not compared with a directory also counts as unavailable if it has lost more than a fifth of its
// rows since its last good answer.
//
// If prices are unavailable, their last good answer is used until it is an hour overdue
// ([maxStale]). After that there is no feed. Prices never wait for anything else: all other
// requests of a round share 90 seconds ([optionalTime]), except those for a directory that was
// never received. A part that fails is put off until the next mark, and after each further failure
// for twice as long, up to two hours ([putOffMost]), even across restarts. Its last good answer
// stays in use indefinitely. This is logged, appears in the build's report and raises an alert. An
// answer that has lost more than half of its rows counts as such a failure. A request that was not
// sent, because the rate, the quota or a Retry-After left no room for it, is not a failure and is
// not put off. Lists that take one call are requested before lists with many pages, which could use
// up the time. A part that was never received is missing. Without a directory there is no feed.
//
// An individual item ([Round.Each]) that fails is requested again an hour later, then less and less
// often, but at least once a week, and the report names it. Several consecutive failures put off
// the whole kind, as if it were a list.
//
// The quota (the quota option) bounds the calls of a month. The client counts calls in the cache
// folder before it makes them. Parts for which the quota does not suffice are requested less often,
// depending on their [Value]. See [Cost].
//
// The last good answers are kept in memory, and in a folder if there is one (the cache option),
// where they outlive the process.
//
// # Recordings
//
// A recording is a folder with the answers as the provider sent them, byte for byte. It contains
// nothing that was sent to the provider (builder record; the replay option):
//
//	recording.json                the list of files, with fetch times and digests
//	tickers.json                  the answer for a part
//	contracts/eth-ethereum.json   the answer for an individual item
//	coins_markets.1.json          the pages of a part that comes in pages
//	coins_markets.2.json
//
// In file names, bytes of ids other than letters, digits, - and _ are written as %XX. A cache
// folder has the same form, but each name contains a part of the digest (tickers.DIGEST.json). New
// answers get new names, then recording.json is replaced, and the old files are removed later. So a
// process that is killed leaves either the old answers or the new ones. A folder made by hand has
// no recording.json. In such a folder, a file NAME-anything.json can replace NAME.json if it is the
// only one, and the first page may be called NAME.json.
package provider
