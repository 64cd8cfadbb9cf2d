package check

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// serving returns an edge that has completely loaded a current snapshot.
func serving(s *scene, args ...string) *daemon {
	s.at = s.at.Add(-10 * time.Minute)
	s.next()
	e := s.edge(args...)
	e.until("/readyz", "^ready")
	return e
}

// ofObjects limits do to requests for objects.
func ofObjects(
	do func(w http.ResponseWriter, key string, b []byte) bool,
) func(http.ResponseWriter, string, []byte) bool {
	return func(w http.ResponseWriter, key string, b []byte) bool {
		return strings.HasPrefix(key, "objects/") && do(w, key, b)
	}
}

// crowd sends n simultaneous requests for target.
func crowd(s *scene, e *daemon, target string, n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { ask(s.t.Context(), e.public, target) })
	}
	all.Wait()
}

// dial opens n connections and leaves them open.
func dial(s *scene, address string, n int) {
	for range n {
		c, err := net.Dial("tcp", address)
		must(s.t, err)
		s.t.Cleanup(func() { c.Close() })
	}
}

var troubles = []trouble{
	{
		name: "all edges are killed", minutes: 4,
		make: func(s *scene) func() {
			e := serving(s)
			return e.kill
		},
		alerts: []string{"EdgeDown", "EdgesAllDown"},
		pages:  map[string]string{"EdgesAllDown": "look at how the last edge ended", "EdgeDown": "See why it ended"},
	},
	{
		name: "one of two edges is killed", minutes: 4,
		make: func(s *scene) func() {
			serving(s)
			return s.edge().kill
		},
		alerts: []string{"EdgeDown"},
		pages:  map[string]string{"EdgeDown": "the others carry its load"},
	},
	{
		name: "nothing is published", minutes: 4,
		make:   func(s *scene) func() { s.edge().until("/readyz", "no snapshot"); return nil },
		alerts: []string{"EdgeNoSnapshot"},
		shows:  "the store has no snapshot yet",
		pages:  map[string]string{"EdgeNoSnapshot": "nothing is published yet"},
	},
	{
		name: "the store refuses an edge that starts", minutes: 12,
		make: func(s *scene) func() {
			s.next()
			s.front.breaks(func(w http.ResponseWriter, _ string, _ []byte) bool {
				refuse(w, http.StatusForbidden, "AccessDenied")
				return true
			})
			s.edge().until("/readyz", "no snapshot yet: ")
			return nil
		},
		alerts: []string{"EdgeNoSnapshot"},
		shows:  "AccessDenied|no access to the store",
		pages:  map[string]string{"EdgeNoSnapshot": "a policy without `s3:GetObject`"},
	},
	{
		name: "the store is away", still: true, minutes: 80,
		make: func(s *scene) func() {
			e := serving(s, "--auth=keys")
			return func() {
				s.front.breaks(away)
				e.until("/status", `"INTERRUPTED"(.|\n)*"keys": \{(.|\n)*"INTERRUPTED"`)
			}
		},
		alerts: []string{
			"EdgeInterrupted", "EdgeKeysUnconfirmed", "EdgeSnapshotOld", "EdgeSnapshotVeryOld", "EdgesAllOld"},
		shows: "as told",
		pages: map[string]string{
			"EdgeInterrupted":     "`last_error` in its `/status` says what went wrong.*the store is unavailable",
			"EdgeKeysUnconfirmed": "the same as for EdgeInterrupted",
			"EdgesAllOld":         "EdgeInterrupted: edges refuse or cannot fetch",
			"EdgeSnapshotVeryOld": "are the same as those of EdgeSnapshotOld", "EdgeSnapshotOld": "see EdgesAllOld",
		},
	},
	{
		name: "the store is away, and there is a copy", minutes: 7,
		make: func(s *scene) func() {
			e := serving(s, "--auth=keys", "--fallback-store=file:"+s.dir)
			return func() {
				s.front.breaks(away)
				e.until("/metrics", "^edge_fallback_active 1")
			}
		},
		alerts: []string{"EdgeOnFallback"},
		shows:  "the fallback store answers in place of the first: (current|keys|change): ",
		pages:  map[string]string{"EdgeOnFallback": "`fallback.reason` in its `/status` says why.*As EdgeInterrupted"},
	},
	{
		name: "one edge cannot reach the store", minutes: 12,
		make: func(s *scene) func() {
			serving(s)
			e := s.start(&daemon{job: "edge", args: []string{"--store=file:" + s.dir}})
			s.edges = append(s.edges, e)
			e.until("/readyz", "^ready")
			return func() {
				s.front.breaks(away)
				s.next()
				e.until("/metrics", "^edge_snapshot_sequence 2")
				s.edges[0].until("/status", `"INTERRUPTED"`)
			}
		},
		alerts: []string{"EdgeInterrupted", "EdgesApart"},
		shows:  "as told",
		pages:  map[string]string{"EdgesApart": "cannot fetch it: its `/status` says"},
	},
	{
		name: "the pointer is damaged", minutes: 12,
		make: func(s *scene) func() {
			e := serving(s)
			return func() {
				must(s.t, os.Truncate(filepath.Join(s.dir, "current"), 100))
				e.until("/metrics", "^edge_snapshot_refused_total [2-9]")
			}
		},
		alerts: []string{"EdgeInterrupted", "EdgePointerRefused"},
		shows:  "pointer: .*(checksum|JSON|unexpected)",
		pages: map[string]string{"EdgePointerRefused": "the object `current` is damaged.*builder restore",
			"EdgeInterrupted": "EdgePointerRefused fires too"},
	},
	{
		name: "the pointer comes late", minutes: 20,
		make: func(s *scene) func() {
			e := serving(s)
			return func() {
				old, err := os.ReadFile(filepath.Join(s.dir, "current"))
				must(s.t, err)
				s.front.breaks(func(w http.ResponseWriter, key string, _ []byte) bool {
					if key == "current" {
						w.Header().Set("ETag", `"old"`)
						_, _ = w.Write(old)
					}
					return key == "current"
				})
				s.next()
				// The objective is ten seconds by the real clock.
				time.Sleep(11 * time.Second)
				s.front.breaks(nil)
				e.until("/metrics", "^edge_snapshot_sequence 2")
			}
		},
		alerts: []string{"EdgeSwapsLate", "EdgeSwapsLateNow"},
		pages: map[string]string{
			"EdgeSwapsLate": "polls are late or fail", "EdgeSwapsLateNow": "are the same as those of EdgeSwapsLate"},
	},
	{
		name: "history hangs in the store", minutes: 12,
		make: func(s *scene) func() {
			e := serving(s, "--history-fetch=0")
			return func() {
				s.front.breaks(ofObjects(func(w http.ResponseWriter, _ string, _ []byte) bool {
					time.Sleep(5 * time.Second)
					return away(w, "", nil)
				}))
				crowd(s, e, "/openapi/v1/history?id=1,2,3&window=24h", 40)
			}
		},
		alerts: []string{"EdgeErrors", "EdgeSlow"},
		shows:  "503",
		pages: map[string]string{
			"EdgeErrors": "the answer needs an object that only the store has", "EdgeSlow": "Shards missed"},
	},
	{
		name: "the key set is damaged", minutes: 7,
		make: func(s *scene) func() {
			e := serving(s, "--auth=keys")
			return func() {
				must(s.t, os.Truncate(filepath.Join(s.dir, "keys"), 100))
				e.until("/status", `"keys": \{(.|\n)*"INTERRUPTED"`)
			}
		},
		alerts: []string{"EdgeKeysUnconfirmed"},
		shows:  "does not confirm the key set: .*key set",
		pages:  map[string]string{"EdgeKeysUnconfirmed": "damaged or not signed"},
	},
	{
		name: "the store loses its pointer and its key set", minutes: 12,
		make: func(s *scene) func() {
			e := serving(s, "--auth=keys")
			return func() {
				must(s.t, os.Remove(filepath.Join(s.dir, "keys")))
				must(s.t, os.Remove(filepath.Join(s.dir, "current")))
				e.until("/metrics", `^edge_store_object_lost\{object="current"\} 1`)
				e.until("/metrics", `^edge_store_object_lost\{object="keys"\} 1`)
			}
		},
		alerts: []string{"EdgeInterrupted", "EdgeKeysUnconfirmed", "StoreObjectLost"},
		shows:  "the store has lost its object (current|keys)",
		pages:  map[string]string{"StoreObjectLost": "`current`.*`keys`|`keys`.*`current`"},
	},
	{
		name: "there are no keys", minutes: 7,
		make: func(s *scene) func() {
			must(s.t, os.Remove(filepath.Join(s.dir, "keys")))
			serving(s, "--auth=keys")
			return nil
		},
		alerts: []string{"EdgeNoKeys"},
		shows:  `"in_force": 0`,
		pages:  map[string]string{"EdgeNoKeys": "`builder keys list` shows whether there are any; if there never were, create one"},
	},
	{
		name: "Redis is away", minutes: 7,
		make: func(s *scene) func() {
			serving(s, "--auth=keys", "--limit-store=redis://127.0.0.1:1").until("/status", "limits are not shared")
			return nil
		},
		alerts: []string{"EdgeLimitsAlone"},
		shows:  "limits are not shared",
		pages:  map[string]string{"EdgeLimitsAlone": "is unavailable or slow"},
	},
	{
		name: "an object is slow to come", minutes: 17,
		make: func(s *scene) func() {
			s.at = s.at.Add(-10 * time.Minute)
			s.next()
			s.front.breaks(ofObjects(func(w http.ResponseWriter, key string, _ []byte) bool {
				return strings.ContainsAny(key[len(key)-1:], "0123") && away(w, "", nil)
			}))
			s.edge("--fetch-budget=1s").until("/status", `"missing_objects": [1-9]`)
			return nil
		},
		alerts: []string{"EdgeIncomplete"},
		shows:  "objects of the snapshot are not on this machine",
		pages:  map[string]string{"EdgeIncomplete": "name an object that the store does not return"},
	},
	{
		name: "the cache folder cannot be written", minutes: 7,
		make: func(s *scene) func() {
			e := serving(s, "--cache-dir="+s.beside("cache"))
			return func() {
				must(s.t, os.RemoveAll(s.beside("cache/objects")))
				must(s.t, os.WriteFile(s.beside("cache/objects"), nil, 0o600))
				s.next()
				e.until("/metrics", "^edge_snapshot_sequence 2")
				e.until("/metrics", "^edge_disk_missing_objects [1-9]")
			}
		},
		alerts: []string{"EdgeDiskCopyFails"},
		shows:  "the cache folder cannot be written: ",
		pages:  map[string]string{"EdgeDiskCopyFails": "The cache folder cannot be written"},
	},
	{
		name: "the cache folder is too small", minutes: 7,
		make: func(s *scene) func() {
			serving(s, "--cache-dir-size=20kB").until("/metrics", "^edge_disk_missing_objects [1-9]")
			return nil
		},
		alerts: []string{"EdgeDiskCopyFails"},
		shows:  "--cache-dir-size is 20000 bytes",
		pages:  map[string]string{"EdgeDiskCopyFails": "`--cache-dir-size` is smaller than a snapshot"},
	},
	{
		name: "the store damages an object", minutes: 5,
		make: func(s *scene) func() {
			e := serving(s)
			return func() {
				s.front.breaks(ofObjects(func(w http.ResponseWriter, _ string, b []byte) bool {
					b[len(b)/2] ^= 1
					_, _ = w.Write(b)
					return true
				}))
				s.next()
				e.until("/metrics", "^edge_snapshot_refused_total [1-9]")
			}
		},
		alerts: []string{"EdgeCorrupt", "EdgePointerRefused"},
		shows:  "object is damaged.*where=store",
		pages: map[string]string{
			"EdgeCorrupt":        "The log says whether they came from the disk or from the store",
			"EdgePointerRefused": "an object is missing or damaged: `builder verify` lists what",
		},
	},
	{
		name: "there are too many connections", minutes: 8,
		make: func(s *scene) func() {
			e := serving(s, "--max-conns=10")
			return func() {
				dial(s, e.public, 150)
				e.until("/metrics", "^edge_connections_refused_total [1-9][0-9][0-9]")
			}
		},
		alerts: []string{"EdgeConnectionsRefused"},
		pages:  map[string]string{"EdgeConnectionsRefused": "More connections than `--max-conns`"},
	},
	{
		name: "there are too few files", minutes: 7,
		make: func(s *scene) func() {
			s.files = "200"
			e := serving(s)
			return func() {
				dial(s, e.public, 95)
				dial(s, e.listen, 70)
				e.until("/metrics", "^process_open_fds 1[6-9][0-9]")
			}
		},
		alerts: []string{"EdgeFilesShort"},
		shows:  "the limit of open files sets the number of connections",
		pages:  map[string]string{"EdgeFilesShort": "Raise the limit of open files"},
	},
	{
		name: "an edge starts again and again", again: 4, minutes: 2,
		make: func(s *scene) func() {
			e := serving(s)
			return func() {
				e.kill()
				e.launch()
				e.until("/readyz", "^ready")
			}
		},
		alerts: []string{"EdgeRestarting"},
		pages:  map[string]string{"EdgeRestarting": "the log's last lines say why"},
	},
	{
		name: "the edge's clock is an hour behind", minutes: 7,
		make: func(s *scene) func() {
			e := serving(s)
			return func() {
				s.front.mu.Lock()
				s.front.skew = time.Hour
				s.front.mu.Unlock()
				e.until("/metrics", "^edge_clock_skew_seconds -35")
			}
		},
		alerts: []string{"EdgeClockWrong"},
		shows:  "this machine's clock is .* behind the store's",
		pages:  map[string]string{"EdgeClockWrong": "the edge's clock is behind the store's.*NTP"},
	},
	{
		name: "the snapshot is of the future", minutes: 7,
		make: func(s *scene) func() {
			e := serving(s)
			return func() {
				s.publish(s.at.Add(time.Hour))
				e.until("/metrics", "^edge_snapshot_sequence 2")
			}
		},
		alerts: []string{"EdgeClockWrong"},
		shows:  "ahead of this machine's clock",
		pages:  map[string]string{"EdgeClockWrong": "an age below zero: the snapshot's time is in the future"},
	},
	{
		name: "the builder is killed", still: true, minutes: 40,
		make: func(s *scene) func() {
			s.feed(s.at, nil)
			b := s.run("--source=feed:" + s.beside("feed"))
			b.until("/metrics", "^builder_snapshot_sequence 1")
			s.edge().until("/readyz", "^ready")
			return b.kill
		},
		alerts: []string{"BuilderDown", "EdgeSnapshotOld", "EdgesAllOld"},
		pages: map[string]string{
			"BuilderDown": "Start it", "EdgesAllOld": "BuilderDown, or no builder series at all: the builder is dead"},
	},
	{
		name: "the feed stands still", still: true, fresh: true, minutes: 7,
		make: func(s *scene) func() {
			s.publish(s.at.Add(-30 * time.Minute))
			s.edge().until("/readyz", "^ready")
			s.run("--source=feed:"+s.beside("feed")).until("/metrics", `^builder_builds_total\{outcome="unchanged"\} 1`)
			return nil
		},
		alerts: []string{"BuilderFeedOld", "EdgeSnapshotOld", "EdgesAllOld"},
		shows:  "the feed stands still",
		pages: map[string]string{
			"BuilderFeedOld": "the feed's own time stands still", "EdgesAllOld": "the feed's own time stands still"},
	},
	{
		name: "the feed is away", still: true, fresh: true, minutes: 28,
		make: func(s *scene) func() {
			s.run("--source=feed:"+s.beside("nowhere")).
				until("/metrics", `^builder_builds_total\{outcome="failed"\} [1-9]`)
			return nil
		},
		alerts: []string{"BuilderNotSucceeding"},
		shows:  "step=read|read: ",
		pages:  map[string]string{"BuilderNotSucceeding": "read.: the feed is unavailable"},
	},
	{
		name: "the pointer is damaged, and nobody but the builder looks", still: true, fresh: true, minutes: 40,
		make: func(s *scene) func() {
			s.next()
			must(s.t, os.Truncate(filepath.Join(s.dir, "current"), 100))
			s.run("--source=feed:"+s.beside("feed")).
				until("/metrics", `^builder_jobs_total\{name="change",outcome="failed"\} [1-9]`)
			return nil
		},
		alerts: []string{"BuilderJobFailing", "BuilderNotSucceeding"},
		shows:  "pointer",
		pages: map[string]string{
			"BuilderJobFailing": "Run it by hand to see why", "BuilderNotSucceeding": "`current` is damaged"},
	},
	{
		name: "the feed has lost most of its rows", fresh: true, minutes: 7,
		make: func(s *scene) func() {
			s.at = s.at.Add(-10 * time.Minute)
			s.next()
			s.feed(s.at, func(dir string) {
				b, err := os.ReadFile(filepath.Join(dir, "quotes.ndjson"))
				must(s.t, err)
				must(s.t, os.WriteFile(filepath.Join(dir, "quotes.ndjson"),
					[]byte(strings.Join(strings.SplitAfter(string(b), "\n")[:50], "")), 0o600))
			})
			s.run("--source=feed:"+s.beside("feed")).until("/metrics", `^builder_builds_total\{outcome="guarded"\} 1`)
			return nil
		},
		alerts: []string{"BuilderGuarded"},
		shows:  "shrink",
		pages:  map[string]string{"BuilderGuarded": "The log names the rule"},
	},
	{
		name: "the feed goes back in time", fresh: true, minutes: 7,
		make: func(s *scene) func() {
			s.publish(s.at.Add(-10 * time.Minute))
			s.feed(s.at.Add(-30*time.Minute), nil)
			s.run("--source=feed:"+s.beside("feed")).
				until("/metrics", `^builder_builds_total\{outcome="superseded"\} 1`)
			return nil
		},
		alerts: []string{"BuilderSuperseded"},
		shows:  "older",
		pages:  map[string]string{"BuilderSuperseded": "Two builders read different feeds"},
	},
	{
		name: "the store loses a retained manifest", fresh: true, minutes: 18,
		make: func(s *scene) func() {
			s.publish(s.at.Add(-20 * time.Minute))
			first, err := filepath.Glob(filepath.Join(s.dir, "manifests", "*"))
			must(s.t, err)
			s.publish(s.at.Add(-10 * time.Minute))
			must(s.t, os.Remove(first[0]))
			s.feed(s.at, nil)
			s.run("--source=feed:"+s.beside("feed")).until("/metrics", "^builder_missing_objects 1")
			return nil
		},
		alerts: []string{"BuilderObjectsMissing"},
		shows:  "objects are missing from the store",
		pages:  map[string]string{"BuilderObjectsMissing": "prices of the past or a retained manifest"},
	},
	{
		name: "the log cannot be written behind the pointer", fresh: true, minutes: 15,
		make: func(s *scene) func() {
			// A file cannot replace a folder, and a folder cannot be a checkpoint.
			must(s.t, os.MkdirAll(filepath.Join(s.dir, "log", "checkpoint"), 0o755))
			key := s.beside("sign.key")
			s.tool("keygen", key)
			s.tool("sign", "--store=file:"+s.dir, "--sign-key="+key)
			s.feed(s.at, nil)
			s.run("--source=feed:"+s.beside("feed"), "--sign-key="+key).until("/metrics", "^builder_log_behind 1")
			return nil
		},
		alerts: []string{"BuilderLogBehind"},
		shows:  "its leaf is missing from the log",
		pages:  map[string]string{"BuilderLogBehind": "names the permission that it lacks"},
	},
	{
		name: "no backup is made", fresh: true, minutes: 18,
		make: func(s *scene) func() {
			s.feed(s.at, nil)
			s.run("--source=feed:"+s.beside("feed"), "--backup=file:"+s.beside("backup")).
				until("/metrics", "^builder_snapshot_sequence 1")
			return nil
		},
		alerts: []string{"BackupOld"},
		shows:  "cannot tell how old the backup is",
		pages:  map[string]string{"BackupOld": "systemctl status marketdata-backup"},
	},
	{
		name: "rows of the feed are bad", fresh: true, minutes: 33,
		make: func(s *scene) func() {
			s.feed(s.at, func(dir string) {
				f, err := os.OpenFile(filepath.Join(dir, "assets.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
				must(s.t, err)
				_, err = fmt.Fprint(f, strings.Repeat("{}\n", 14))
				must(s.t, err)
				must(s.t, f.Close())
			})
			s.run("--source=feed:"+s.beside("feed"), "--max-bad-rows=50%").
				until("/metrics", "^builder_snapshot_sequence 1")
			return nil
		},
		alerts: []string{"BuilderRowsRejected"},
		pages:  map[string]string{"BuilderRowsRejected": "lists the first of them with their reasons"},
	},
	{
		name: "the provider's prices stand still", fresh: true, minutes: 7,
		make: func(s *scene) func() {
			provided(s, &paprika{updated: time.Now().Add(-2 * time.Hour)}, "").
				until("/metrics", "^builder_snapshot_sequence 1")
			return nil
		},
		alerts: []string{"BuilderDataOld"},
		pages:  map[string]string{"BuilderDataOld": "older than it should be"},
	},
	{
		name: "the provider's prices have no time", fresh: true, minutes: 33,
		make: func(s *scene) func() {
			provided(s, &paprika{}, "").until("/metrics", `^builder_part_untimed\{part="[a-z]+"\} 1`)
			return nil
		},
		alerts: []string{"BuilderDataUntimed"},
		pages:  map[string]string{"BuilderDataUntimed": "has renamed or dropped `last_updated`"},
	},
	{
		name: "the provider's calls are spent", fresh: true, minutes: 63,
		make: func(s *scene) func() {
			p := &paprika{updated: time.Now()}
			b := provided(s, p, "&quota=none")
			b.until("/metrics", "^builder_snapshot_sequence 1")
			_, calls, _ := strings.Cut(b.until("/metrics", `^builder_source_calls\{`), "\nbuilder_source_calls{")
			_, calls, _ = strings.Cut(calls, "} ")
			calls, _, _ = strings.Cut(calls, "\n")
			b.kill()
			s.builds = nil
			must(s.t, os.RemoveAll(s.dir)) // use another store, because this one already has this mark
			s.builder("keys", "create", "--name=check")
			provided(s, p, "&quota="+calls).until("/metrics", "^builder_source_calls_left")
			return nil
		},
		alerts: []string{"BuilderCallsSpent"},
		pages:  map[string]string{"BuilderCallsSpent": "`quota=` was lowered"},
	},
	{
		name: "the provider refuses a list", fresh: true, minutes: 13,
		make: func(s *scene) func() {
			p := &paprika{updated: time.Now()}
			for i := range 3 { // The first succeeds. The third failure is the builder's, below.
				s.feedOf(s.provider(p, ""), fmt.Sprintf("feed-%d", i), "--state-dir="+s.beside("provider"))
				p.refuses = "/exchanges"
				age(s.t, s.beside("provider/coinpaprika/recording.json"), 3*time.Hour)
			}
			provided(s, p, "").until("/metrics", `^builder_part_failures\{part="exchanges"\} 3`)
			return nil
		},
		alerts: []string{"BuilderPartFailing"},
		shows:  "part=exchanges.*status 403",
		pages:  map[string]string{"BuilderPartFailing": "401, 402, 403: the key or plan does not cover it"},
	},
	{
		name: "the provider refuses exchange rates", fresh: true, minutes: 13,
		make: func(s *scene) func() {
			p := &paprika{updated: time.Now(), gecko: true}
			s.feedOf(s.provider(p, "&rate=60000"), "feed", "--state-dir="+s.beside("provider"))
			p.refuses = "/exchange_rates"
			age(s.t, s.beside("provider/coingecko/recording.json"), 8*time.Hour)
			provided(s, p, "&rate=60000").until("/metrics", `^builder_part_failures\{part="exchange_rates"\} 1`)
			return nil
		},
		alerts: []string{"BuilderRatesOld"},
		shows:  "part=exchange_rates.*status 403",
		pages:  map[string]string{"BuilderRatesOld": "wrong by as much as exchange rates have moved since"},
	},
	{
		name: "the provider is slow", fresh: true, minutes: 13, stretch: 100,
		make: func(s *scene) func() {
			provided(s, &paprika{updated: time.Now(), slow: 4 * time.Second}, "").
				until("/metrics", `^builder_build_step_duration_seconds_sum\{step="read"\} [4-9]`)
			return nil
		},
		alerts: []string{"BuilderSlow"},
		pages:  map[string]string{"BuilderSlow": `\*read\*, the feed`},
	},
}
