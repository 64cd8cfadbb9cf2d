// Package artifacts is the contract between builder and edge: how things are named in the object
// store, what their bytes mean, and what a store must promise. It imports neither side.
//
// # A store
//
// A store holds objects of two kinds. Immutable ones are named by the SHA-256
// of their bytes as stored and are never changed:
//
//	objects/<2 hex>/<62 hex>   shards of a view, and what the ledger keeps
//	manifests/<64 hex>         one a snapshot
//	files/<2 hex>/<62 hex>     what only files need
//
// One says which store it is, is made before anything else, and never changes its id:
//
//	identity                   32 hexadecimal digits, random; which small objects there were
//
// Four small ones move, by compare-and-swap only:
//
//	current                    the pointer: which manifest is published
//	change                     the 24-hour change of the total
//	keys                       the API keys, as hashes
//	lease                      which of several builders works
//
// A signed store has the log of published snapshots:
//
//	log/checkpoint             its size and root; moves like the four
//	log/tile/...               its tiles and entries, immutable
//
// A reader starts at current, takes the manifest that it names, and from there the objects that the
// manifest names. It checks each object's length and digest before it looks at a byte of it.
//
// # Identity, pointer, change, keys
//
// UTF-8 JSON objects; unknown fields are ignored. See [Identity], [Pointer] and
// [Change] for their fields, [KeySet] for the keys. Their last field is a
// checksum: sum is the SHA-256, in lower-case hexadecimal digits, of all bytes
// before the comma in front of it. An object without one is refused.
//
// Pointer, change record and key set say of which store they are, and have a
// number that grows by one each time that they are written (the pointer's is its
// sequence), so that an older one, or one of another store, is known as such: see
// [Numbered]. A store made before these fields has neither; its identity is
// that of its pointer, and such a record counts as the store's number 0. The first
// number of a record, and that of one which was lost, is the count of five minutes
// since 1970 and the pointer's sequence.
//
// One that is signed has a second line, {"signatures":[…]}, with one element for each key that
// signed it: key is the first 16 hexadecimal digits of the public key's SHA-256, ed25519 the
// signature (RFC 8032) in base64 (RFC 4648 section 4). What is signed is "marketdata ", the
// object's name in the store, a line feed, and the first line with its line feed. While one of the
// four is signed, the store is: all of them are to be, by the same keys.
//
// # Lease
//
// One line of JSON, for builders only; gc, verify and copies of a store leave it alone. format is
// 1; number grows by one each time it is written, so that no two versions are equal; owner names a
// run of a builder, at random, "" when nobody has it; until is by the owner's clock, for people. It
// has no checksum and no signature: nobody believes more of it than that it has changed, one that
// cannot be read is overwritten like one that does not change, and whoever can write it could do no
// more with a signature than without: hold up builders.
//
// # Log
//
// A signed store has a log of its publications, rollbacks and restores included: a Merkle tree as
// C2SP tlog-tiles has it (https://c2sp.org/tlog-tiles), below log/. Each has one leaf. Its entry is
// the snapshot's time and its manifest's digest:
//
//	2026-11-21T07:20:00Z 5f0c…
//
// log of the pointer is the tree whose last leaf is this publication, so the pointer's swap appends
// it. Tiles and entries are put before or behind, then the checkpoint (C2SP tlog-checkpoint): a signed note; its
// origin, and the name of its keys, is marketdata/ and the store's identity. So a log may lack the
// pointer's own leaf, until the next publication, and no other. What was published while the store
// was not signed, and is retained, gets its leaves from the next signed publication, before its own.
// A partial tile goes when the full one is there. Edges read none of it.
//
// # Manifest
//
// A manifest is a UTF-8 JSON object, not compressed; see [Manifest]. It holds
// nothing that depends on the clock, on chance, or on the store.
//
// # Object of a view
//
// A view is a collection in one sort order: by id; by the folded text of the field that the sort
// key names; by its number, where what has none stands as INTERFACE.md, "Sorting" says; trending in
// the order of its board. Each view of a collection has all its rows. A reader does without a view
// of a sort key that the writer does not know, and leaves out those that it does not know itself.
// Its rows are cut into shards of RowsPerShard rows (the last may be shorter), and ShardsPerObject
// shards in a row share an object (the last may hold fewer). So row n is in shard n/RowsPerShard,
// which is in object n/RowsPerShard/ShardsPerObject. A view with RowsPerShard of its own has shards
// of that many rows, and objects of as many rows as the others.
//
//	offset  length  meaning
//	0       4       "MDV1"
//	4       4       n: length of the index, unsigned, little-endian
//	8       n       the index: one zstd frame (RFC 8878) with a content
//	                checksum; inside, JSON: see [Index]
//	8+n             the shards, each one zstd frame with a content checksum,
//	                at the offsets (from the end of the index) and of the
//	                stored and plain lengths that the index gives
//
// A shard whose frame does not expand to exactly its plain length is broken.
//
// Index and manifest say of each shard and object with what it begins; see
// [Fence].
//
// # Shard
//
// Unsigned varints (as in Protocol Buffers: 7 bits a byte, low bits first) and
// bytes, in this order. A run is a maximal sequence of neighbouring rows with
// equal sort keys; within a run rows stand in ascending order of id.
//
//	n          rows, 1 to 65535
//	flags      bit 0: runs carry keys; bit 1: rows have tails
//	before     rows of the first run that stand in earlier shards
//	after      rows of the last run that stand in later shards
//	first run  number of the first run in its view, from 0
//	r          runs that have rows in this shard, 1 to n
//	r lengths  rows of each run in this shard; absent when r = n
//	r keys     length and bytes of each run's key (with flag 0): the sort
//	           key of its rows, folded (see [Fold]) unless it is a contract's
//	c          columns
//	c·n ords   column after column: for each row, the number of its run in
//	           the view of the same collection that the manifest's view
//	           names in Columns
//	n lengths  of the rows' tails (with flag 1)
//	tails      their bytes, one after the other (with flag 1)
//	n lengths  of the rows
//	rows       n JSON objects separated by a comma and nothing else: the very
//	           bytes that clients get
//
// Every row begins with {"id": and the id in decimal. A row with its tail is
// the row without its last byte and then the tail. (On assets: the tail is
// ,"links":{…}} and is sent when fields=links is asked.)
//
// # History
//
// Each window of /history ([HistoryWindows]) has a chain of points: of every interval the first
// snapshot kept in it. The chain is cut into blocks, each a collection of its own,
// history/7d/2026-11-15T00:00:00Z for one, with a view by id and, in the manifest, the times of its
// points. A row has a price, or null, for each of them:
//
//	{"id":1,"prices":["91000.5",null,"91002"]}
//
// An asset without a price in a block has no row there. A block begins at a whole
// multiple of its own length since 1970, which is the builder's business, and is
// written anew while points are added; the oldest of a window may be again, without
// points that have left it. One leaves the manifest when all of its points are older
// than the window, so the oldest may have some that are. The points of the snapshot itself are the last
// of the shortest window, whose chain has every snapshot.
//
// The collection history/7d lists by id the assets that have a point of the chain in
// the window, whether they are in the directory or not; an asset whose price of the
// snapshot itself is no point of the chain may be missing. For builders, last is
// the time of an asset's newest point, if it is not the chain's newest:
//
//	{"id":1,"last":"2026-11-21T10:00:00Z"}
//
// # Past
//
// /candles, /prices and the window max of /history are answered from blocks of three
// intervals ([PastIntervals]): every snapshot of 48 hours, the first of each UTC hour of 90 days,
// and the first of each UTC day without end. A block is a collection of its own,
// history/past/1h/2026-11-15T00:00:00Z for one, with a view by id and, in the manifest, the times of
// those snapshots; an interval without a snapshot has no place in it. For each of the times a row
// has the asset's price, market cap and volume in that snapshot, or null if it had no price.
// A cap or a volume that is not known is null:
//
//	{"id":1,"moments":[["91000.5","1800000000000","2500000"],null,["91002",null,null]]}
//
// In blocks of hours and days a row has candles as well, one for each of the times: the
// first, the highest, the lowest and the last price of all the snapshots of that hour or day that
// have a price of the asset, and market cap and volume of the last of these; null if there is none:
//
//	{"id":1,"moments":[…],"candles":[["91000.5","91200","90900","91000","1800000000000","2500000"],null]}
//
// The hour and the day of the snapshot itself are not over, so they are not among them: their
// snapshots are in the blocks of ten minutes. A block is written anew while its own time lasts,
// and by an import. It leaves the manifest when none of its snapshots is kept any longer,
// so it may have some that are not.
//
// # Search
//
// Of the collection search there is one view, by word, whose runs carry keys and whose
// rows no columns: for each asset of the directory and each different word of its name
// ([NextWord]), folded, a row with the asset's rank, if it has one:
//
//	{"id":1,"rank":1}
//
// Beginnings of symbols and slugs, and whole names, are looked up in the assets' views
// by symbol, slug and name, which have keys and a column of the runs by rank.
//
// # Markets
//
// The collection markets has the quotes in those orders of /markets that are not the quotes' own.
// Its rows say only which asset it is, and its rank, if it has one; the rest is in the quotes'
// view by id:
//
//	{"id":1,"rank":1}
//
// The view by id has a column for every other order and as tails the groups of which the asset is
// a coin, ,"groups":{"categories":[…],"chains":[…]}}. The views category and chain have a run for
// each listed group with quoted coins, by its folded slug, and in it a row for each of them.
//
// # Coins
//
// What the answers below /api/v3/ need and the collections above do not have. An item is bytes that
// clients get; [CoinItem] cuts it out.
//
// coins, by id, has the assets, their symbols in lower case; the tail makes an item one with
// platforms, by their ids:
//
//	{"id":1,"item":{"id":"usd-coin","symbol":"usdc","name":"USD Coin"}}
//	,"platforms":{"ethereum":"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}
//
// contracts, by address, has a row, {"id":1}, for each address in these tails, in the run with the
// key of [AppendContractKey].
//
// platforms, by id, has each listed chain, and each platform with an address, in the order of their
// ids as bytes, numbered from 1. What is not known is null or "":
//
//	{"id":1,"item":{"id":"ethereum","chain_identifier":1,"name":"Ethereum Mainnet",
//	"shortname":"Ethereum","native_coin_id":"ether","image":{"thumb":"…","small":"…","large":"…"}}}
//
// figures, by id, has for each quote its price less the base of the percent change of 24 hours, and
// the circulating, total and maximum supplies, which may be null:
//
//	{"id":1,"figures":["-12.5","19700000",null,"21000000"],"covered":127}
//
// covered has a bit for each window of percent_change, 1h the lowest: set if the base of the change is
// at least nine tenths of the window old.
//
// rates, by id, has what a unit of each currency is worth in US dollars, usd included, in the order
// of their codes as bytes, numbered from 1:
//
//	{"id":1,"code":"btc","name":"Bitcoin","unit":"BTC","type":"crypto","usd":"91000.5","asset":1}
//
// asset is the id of the asset that the rate names; a rate in US dollars lacks it.
//
// leaders, by id, has the listed categories, each with the slugs and logos of up to three coins, by
// rank:
//
//	{"id":1,"top_3_coins_id":["bitcoin","ether"],"top_3_coins":["https://…",""]}
//
// # Changes
//
// The changes of the directory (INTERFACE.md, "Changes") are cut by UTC days, each with changes a collection of
// its own, changes/2026-11-21 for one, with one view, by time: a run for each snapshot with changes, whose key is
// its time. Its rows are numbered from 1. CoinItem cuts out what clients get:
//
//	{"id":1,"item":{"time":"2026-11-21T10:20:00Z","collection":"assets","kind":"removed","id":7,…}}
//
// Within a run they descend by collection and id, so rows read backwards, from the newest day on, are in the order
// of answers. Changes in the manifest says from when the views are complete, and how many changes T itself has. A
// day leaves ChangesKept behind its end, and sooner if there are more than MaxChanges: since rises to its last
// ten minutes.
//
// # Files
//
// Files in the manifest names FileSets, which names the FileList of each set, which names the chunks
// of each file: all of them below files/, so that a build need not list them. Each manifest names
// the sets that are kept then. A list is signed as cells are, by the keys of the build, under the
// name files.json.
//
// # Versions
//
// Format 1, November 2026, is the first. A reader refuses a format it does not
// know with [ErrFormat].
package artifacts
