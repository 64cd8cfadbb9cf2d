// Package provider is the common part of the live providers of market data (packages
// coinpaprika, coingecko, coinmarketcap and coincap): a client with rate limits and
// retries, a cache of the last good answers, and recordings.
//
// A provider's package implements [Market]: it describes each thing it asks for as a
// [Part] (where to ask, how long an answer counts as new, how to check one), asks a
// [Round] for the parts, and writes the rows as the files of a feed ([Feed]). Every
// number stays as the provider wrote it: values travel as raw JSON. The package judges
// nothing either. A row that cannot be used is passed on, and set aside by the reader of
// feeds, which reports it and counts it for the guard rails.
//
// There are three rounds. A live round asks the provider and keeps the last good
// answers, a replay reads a recording, and a dry run notes the questions, from which
// [Source.Costs] reckons a month.
//
// # When the provider fails
//
// The client retries a request whose failure may be temporary (no connection, a
// timeout, a truncated body, 408, 425, 429, 5xx, an answer that fails its check), four
// times in all, with growing random pauses. All requests of the client obey Retry-After.
// If it asks for more than a build can wait, the request fails, and until then so do all
// others, without being sent. Any other status is final.
//
// Pages are read until one is empty: a short page does not end a list. A list counts as unavailable
// if its rows leave a gap in the directory of assets ([List].Of), if it has lost a field
// ([List].Has), or if a page repeats the rows of the one before. So does a list in pages without a
// directory that has lost a fifth of the rows of its last good answer.
//
// If prices are unavailable, their last good answer is used until it is an hour overdue
// ([maxStale]); after that there is no feed. Prices never wait for anything else: all other
// requests of a round share 90 seconds ([optionalTime]), except those for a directory that was
// never received. A part that fails is put off until the next mark, then for twice as long each
// time, up to two hours ([putOffMost]), also over restarts. Its last good answer stays in use
// without a limit; this is logged, appears in the build's report and raises an alert. An answer
// that has lost more than half of its rows is such a failure. A request that was not sent, since
// the rate, the quota or a Retry-After left no room for it, is none, and is not put off. Lists of
// one call come before lists of many pages, which could use up the time. A part that was never
// received is missing, and without a directory there is no feed.
//
// A single item ([Round.Each]) that fails is asked for again an hour later, then ever
// more rarely, at least each week, and the report names it. Some failures in a row put
// off the whole kind, as if it were a list.
//
// A Retry-After that comes with anything but prices does not delay prices.
//
// The quota (option quota) bounds the calls of a month: the client counts them in the
// cache folder before it makes them, and parts that do not fit are asked for more
// rarely, by their [Value]. See [Cost].
//
// The last good answers are kept in memory, and in a folder if there is one (option
// cache), where they outlive the process.
//
// # Recordings
//
// A recording is a folder of answers as the provider sent them, byte by byte,
// and of nothing that was sent to it (builder record; option replay):
//
//	recording.json                what follows, when it was fetched, digests
//	tickers.json                  the answer of a part
//	contracts/eth-ethereum.json   parts that are asked for one by one
//	coins_markets.1.json          the pages of a part that comes in pages
//	coins_markets.2.json
//
// In file names, bytes of ids other than letters, digits, - and _ are written %XX. A cache folder
// has the same form, with a part of the digest in each name (tickers.DIGEST.json): new answers get
// new names, recording.json is replaced, and the old files go later, so that a process that is
// killed leaves the answers of before or the new ones. A folder made by hand has no recording.json;
// where NAME.json is missing, a lone NAME-anything.json does, and the first page may be NAME.json.
package provider
