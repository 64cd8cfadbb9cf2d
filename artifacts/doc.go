// Package artifacts defines the contract between the builder and the edge: how the objects in the store
// are named, what their bytes mean, and what a store must promise. It imports neither side.
//
// # A store
//
// A store contains immutable objects and cells. Immutable objects are named by the SHA-256 of their
// stored bytes:
//
//	objects/<2 hex>/<62 hex>   shards of a view, and objects of the ledger
//	manifests/<64 hex>         one per snapshot
//	files/<2 hex>/<62 hex>     objects that only files need
//
// One cell identifies the store. It is created before anything else, and its id never changes:
//
//	identity                   32 random hexadecimal digits, and the cells that the store has had
//
// Four cells change, but only by compare-and-swap:
//
//	current                    the pointer, which names the published manifest
//	change                     the 24-hour change of the total
//	keys                       the API keys, as hashes
//	lease                      which of several builders works
//
// A signed store also has the log of published snapshots:
//
//	log/checkpoint             a cell with the log's size and root
//	log/tile/...               its tiles and entries, immutable
//
// A reader starts with the cell current, reads the manifest that the cell names, and then the
// objects that the manifest names. It checks the length and the digest of each object before it
// uses any of its bytes.
//
// # Identity, pointer, change, keys
//
// These cells are JSON objects in UTF-8. Readers ignore unknown fields. The fields are those of
// [Identity], [Pointer], [Change] and [KeySet]. The last field, sum, is a checksum: the SHA-256, in
// lower-case hexadecimal digits, of all bytes before the comma in front of it. Readers reject a cell
// without a checksum.
//
// The pointer, the change record and the key set each name their store and have a number that grows
// by one with each write. (The pointer's number is its sequence.) So readers recognize an older
// version, or a cell of another store; see [Numbered]. In stores written before these fields
// existed, the pointer gives the identity of the store, and the change record and the key set count
// as number 0. The first number of a record, and the first after its loss, is the number of
// five-minute intervals since 1970, plus the pointer's sequence, plus one.
//
// A signed cell has a second line, {"signatures":[…]}, with one element for each key that signed
// it. In an element, the field "key" is the first 16 hexadecimal digits of the public key's
// SHA-256, and the field "ed25519" is the signature (RFC 8032) in base64 (RFC 4648, section 4). The
// signed message is "marketdata ", the name of the cell, a line feed, and the first line including
// its line feed. If one of the four cells is signed, the store is signed: then all four must be
// signed by the same keys.
//
// # Lease
//
// The lease is one line of JSON, for builders only; gc, verify and copies of a store ignore it. Its
// format is 1. Its number grows by one with each write, so that no two versions are equal. The
// field owner is a random name for one run of a builder, or "" if no builder has the lease. The
// field until is the end of the lease by the owner's clock; it is only for people. The lease needs
// no checksum and no signature: readers only check whether it changed. They treat a lease that they
// cannot parse as one that does not change, and replace it. Whoever can write it can only delay
// builders, and a signature would not prevent that.
//
// # Log
//
// A signed store has a log of its publications, including rollbacks and restores, under log/. It is
// a Merkle tree in the format of C2SP tlog-tiles (https://c2sp.org/tlog-tiles). Each publication
// has one leaf, whose entry is the snapshot's time and its manifest's digest:
//
//	2026-11-21T07:20:00Z 5f0c…
//
// The pointer's field log is the state of the tree whose last leaf is that publication, so the swap
// of the pointer also appends the leaf. Tiles and entries are written before or after the swap, and
// the checkpoint (C2SP tlog-checkpoint) is written last. The checkpoint is a signed note. Its
// origin, which is also the name of its keys, is marketdata/ followed by the store's identity.
// Until the next publication, the stored log may therefore lack the pointer's own leaf, but no
// other. Retained snapshots that were published while the store was not signed get their leaves
// with the next signed publication, before its own leaf. A partial tile is deleted once the full
// tile exists. Edges do not read the log.
//
// # Manifest
//
// A manifest is an uncompressed JSON object in UTF-8; see [Manifest]. It does not depend on the clock,
// on chance, or on the store.
//
// # Object of a view
//
// A view is a collection in one sort order: by id, by the folded text of the field that the sort
// key names, or by its number. INTERFACE.md, "Sorting", says where rows without a value are placed.
// The view of the collection trending has the order of the trending board. Each view of a
// collection has all rows of the collection. A reader ignores views whose sort key it does not
// know, and works without a view that the writer did not know.
//
// The rows of a view are divided into shards of RowsPerShard rows; the last shard may be shorter. An
// object has ShardsPerObject consecutive shards; the last object may have fewer. So row n is in shard
// n/RowsPerShard, which is in object n/RowsPerShard/ShardsPerObject. A view may have its own
// RowsPerShard. Its objects still have as many rows as those of other views.
//
//	offset  length  meaning
//	0       4       "MDV1"
//	4       4       n: length of the index, unsigned, little-endian
//	8       n       the index: one zstd frame (RFC 8878) with a content
//	                checksum, which contains JSON: see [Index]
//	8+n             the shards, each one zstd frame with a content checksum,
//	                at the offsets (from the end of the index) and with the
//	                stored and plain lengths that the index gives
//
// A shard is damaged if its frame does not expand to exactly its plain length.
//
// The index and the manifest give the sort key of the first row of each shard and object; see [Fence].
//
// # Shard
//
// A shard consists of unsigned varints (as in Protocol Buffers: 7 bits per byte, low bits first) and
// bytes, in the following order. A run is a maximal sequence of consecutive rows with equal sort keys.
// Within a run, rows are in ascending order of id.
//
//	n          the number of rows, 1 to 65535
//	flags      bit 0: runs have keys; bit 1: rows have tails
//	before     the number of rows of the first run in earlier shards
//	after      the number of rows of the last run in later shards
//	first run  the number of the first run in its view, from 0
//	r          the number of runs with rows in this shard, 1 to n
//	r lengths  the number of rows of each run in this shard; absent if r = n
//	r keys     length and bytes of each run's key (if bit 0 is set): the sort
//	           key of its rows, folded (see [Fold]) unless it is a contract's
//	c          the number of columns
//	c·n ords   column after column: for each row, the number of its run in
//	           the view of the same collection that the manifest's view
//	           names in Columns
//	n lengths  of the rows' tails (if bit 1 is set)
//	tails      their bytes, one after the other (if bit 1 is set)
//	n lengths  of the rows
//	rows       n JSON objects separated by single commas, exactly as clients
//	           get them
//
// Every row begins with {"id": and the id in decimal. A row with its tail is the row without its last
// byte, followed by the tail. (The tail of an asset is ,"links":{…}}, which fields=links adds.)
//
// # History
//
// Each window of /history ([HistoryWindows]) has a chain of points, which has the first kept snapshot
// of every interval. The chain is divided into blocks. Each block is a collection of its own, such as
// history/7d/2026-11-15T00:00:00Z, with a view by id. The manifest lists the times of the block's
// points, and each row has a price, or null, for each of them:
//
//	{"id":1,"prices":["91000.5",null,"91002"]}
//
// An asset without a price in a block has no row there. A block begins at a whole multiple of its
// length since 1970; readers need not know the length. The builder rewrites the newest block while
// it adds points to it, and may rewrite the oldest block to drop points that have left the window.
// A block leaves the manifest when all of its points are older than the window, so the oldest block
// may contain some that are older. The points of the snapshot itself are the last ones of the
// shortest window, whose chain has every snapshot.
//
// The collection history/7d lists, by id, the assets that have a point of the chain in the window,
// including assets that are no longer in the directory. It may lack an asset whose only price is in
// the snapshot itself, if that price is not a point of the chain. If an asset's newest point is not
// the newest of the chain, its row has the time of that point, which builders use:
//
//	{"id":1,"last":"2026-11-21T10:00:00Z"}
//
// # Past
//
// /candles, /prices and the window max of /history are answered from blocks of three intervals
// ([PastIntervals]): every snapshot of the last 48 hours, the first snapshot of each UTC hour of
// the last 90 days, and the first snapshot of each UTC day, which is kept forever. A block is a
// collection of its own, such as history/past/1h/2026-11-15T00:00:00Z, with a view by id. The
// manifest lists the times of the block's snapshots; it lists no time for an interval without a
// snapshot. For each of these times a row has the asset's price, market cap and volume in that
// snapshot, or null if the asset had no price. An unknown market cap or volume is null:
//
//	{"id":1,"moments":[["91000.5","1800000000000","2500000"],null,["91002",null,null]]}
//
// In blocks of hours and days a row also has a candle for each of the times: the first, the
// highest, the lowest and the last price in all snapshots of that hour or day, and the market cap
// and volume in the last of these snapshots. Snapshots without a price of the asset do not count.
// Without any price the candle is null:
//
//	{"id":1,"moments":[…],"candles":[["91000.5","91200","90900","91000","1800000000000","2500000"],null]}
//
// The hour and the day of the snapshot itself are not over yet, so these blocks do not include
// them; their snapshots are in the blocks of ten minutes. The builder rewrites a block until the
// time that it covers is over, and when an import changes it. A block leaves the manifest when the
// last of its snapshots is no longer kept, so until then it may contain snapshots that are no
// longer kept.
//
// # Search
//
// The collection search has one view, by word. Its runs have keys, and its rows have no columns.
// For each asset of the directory and each distinct word of its name ([NextWord]), folded, it has a
// row with the asset's id and, if it has one, its rank:
//
//	{"id":1,"rank":1}
//
// Prefixes of symbols and slugs, and whole names, are searched in the assets' views by symbol, slug
// and name. These views have keys, and a column with the run numbers of the view by rank.
//
// # Markets
//
// The collection markets has the quotes in those sort orders of /markets that the collection quotes
// lacks. Its rows have only the asset's id and, if it has one, its rank. Everything else is in the
// quotes' view by id:
//
//	{"id":1,"rank":1}
//
// The view by id has a column for every other order. Its tails are the groups to which the asset
// belongs, ,"groups":{"categories":[…],"chains":[…]}}. The views category and chain have one run
// for each listed group with quoted coins, in the order of the groups' folded slugs. Each run has
// one row for each of these coins.
//
// # Coins
//
// The following collections have the additional data that answers under /api/v3/ need. An item is a
// JSON object that clients get; [CoinItem] extracts it from a row.
//
// coins, by id, has the assets, with their symbols in lower case. The tail adds the asset's platforms
// and its addresses on them:
//
//	{"id":1,"item":{"id":"usd-coin","symbol":"usdc","name":"USD Coin"}}
//	,"platforms":{"ethereum":"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}
//
// contracts, by address, has one row, {"id":1}, for each address in these tails. [AppendContractKey] writes
// its sort key.
//
// platforms, by id, has each listed chain and each platform with an address, in the order of their ids
// as bytes, numbered from 1. Unknown values are null or "":
//
//	{"id":1,"item":{"id":"ethereum","chain_identifier":1,"name":"Ethereum Mainnet",
//	"shortname":"Ethereum","native_coin_id":"ether","image":{"thumb":"…","small":"…","large":"…"}}}
//
// figures, by id, has a row for each quote: the price minus the base of the 24-hour percent change,
// and the circulating, total and maximum supply, which may be null:
//
//	{"id":1,"figures":["-12.5","19700000",null,"21000000"],"covered":127}
//
// The member covered has one bit for each window of percent_change; the lowest bit is for 1h. A bit
// is set if the base of that window's change is at least nine tenths of the window old.
//
// rates, by id, has the value of one unit of each currency, including usd, in US dollars. The rows are in
// the order of the currencies' codes as bytes, numbered from 1:
//
//	{"id":1,"code":"btc","name":"Bitcoin","unit":"BTC","type":"crypto","usd":"91000.5","asset":1}
//
// The member asset is the id of the asset that the feed's rate names. A rate given in US dollars
// has no asset.
//
// leaders, by id, has the listed categories, each with the slugs and logos of up to three of its coins,
// by rank:
//
//	{"id":1,"top_3_coins_id":["bitcoin","ether"],"top_3_coins":["https://…",""]}
//
// # Changes
//
// The changes of the directory (INTERFACE.md, "Changes") are divided by UTC days. Each day with changes
// is a collection of its own, such as changes/2026-11-21, with one view, by time: it has one run for each
// snapshot with changes, whose key is the snapshot's time. The rows are numbered from 1. CoinItem
// extracts what clients get:
//
//	{"id":1,"item":{"time":"2026-11-21T10:20:00Z","collection":"assets","kind":"removed","id":7,…}}
//
// Within a run, rows descend by collection and id, so rows read backwards from the newest day are
// in the order of answers. The manifest's field Changes says from which time the views are
// complete, and how many changes the snapshot itself has. A day leaves the manifest when
// ChangesKept has passed since its end, or sooner if there are more than MaxChanges changes. The
// member since of that field is then the last T of the last day that was dropped.
//
// # Files
//
// The manifest's field Files names the FileSets, which names the FileList of each set, which names
// the chunks of each file. All of these objects are under files/, so that a build need not list
// them. Each manifest names the sets that are kept at its time. A list is signed like a cell, by
// the keys of the build, under the name files.json.
//
// # Versions
//
// Format 1, November 2026, is the first. A reader rejects a format that it does not know with
// [ErrFormat].
package artifacts
