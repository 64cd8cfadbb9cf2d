// Package provider is what the live providers of market data have in common
// (packages coinpaprika, coingecko, coinmarketcap and coincap): a client with rate
// limits and retries, a cache of the last good answers, and recordings.
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
// A request that fails in a way that may pass (no connection, a timeout, a
// body that breaks off, 408, 425, 429, 5xx, an answer that is not what was
// asked for) is made again, four times in all, with growing and random pauses.
// Retry-After is obeyed by all requests of the client; when it asks for more
// than a build can wait, the request fails and so do all others until then,
// without being sent. Any other status is final.
//
// Pages are read until one is empty: one that is a row short does not end a list.
// A list whose rows leave a gap in the directory of assets ([List].Of), that has
// lost a field ([List].Has), or of which a page has the rows of the one before, is as
// good as unavailable; so is one in pages without a directory that has lost a fifth of
// the rows of its last good answer.
//
// Prices that are unavailable are taken from their last good answer, for as long as
// that is not more than an hour overdue ([maxStale]); after that there is no feed.
// Prices never wait for anything else: all other requests of a round, but those for a
// directory that was never had, share 90 seconds ([optionalTime]). A part that fails
// is put off until the next mark, then for twice as long each time, up to two hours
// ([putOffMost]), over restarts too; its last good answer stays in use without a limit,
// which is logged, stands in the build's report and is an alert. An answer that has
// lost more than half of its rows is such a failure. A part that was never had is
// missing, and without a directory there is no feed.
//
// What is asked for one by one ([Round.Each]) is asked for again an hour after it
// failed, then ever more rarely, at least each week, and the report names it; some
// failures in a row put off all of the kind, as if it were a list.
//
// A Retry-After that comes with anything but prices holds no prices back.
//
// No more calls are made in a month than the quota has (option quota): they are
// counted in the cache folder before they are made, and parts that do not fit are
// asked for more rarely, by their [Value]. See [Cost].
//
// The last good answers are kept in memory, and in a folder too if there is one
// (option cache), so that they outlive the process.
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
// In file names, bytes of ids other than letters, digits, - and _ are written
// %XX. A cache folder has the same form. So have folders made by hand: without
// recording.json, and where NAME.json is missing, a lone NAME-anything.json
// does, and the first page may be NAME.json.
package provider
