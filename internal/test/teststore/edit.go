package teststore

import (
	"context"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
)

// EditRow changes the first row of a view in the published snapshot of a store, in a way that no
// builder would, and publishes the snapshot again. The view must have only one shard.
func EditRow(tb testing.TB, store artifacts.Store, collection, sort string, change func(row []byte) []byte) {
	tb.Helper()
	ctx := context.Background()
	p := Read(tb, store)
	v := p.Manifest.View(collection, sort)
	b := must.Get(artifacts.ReadObject(ctx, store, v.Objects[0].Ref))(tb)
	shards, err := artifacts.ParseObject(b)
	if err != nil || len(shards) != 1 || len(v.Objects) != 1 {
		tb.Fatalf("%d shards in %d objects: %v", len(shards), len(v.Objects), err)
	}
	s := shards[0]
	in := &artifacts.ShardRows{FirstRun: s.FirstRun, Ords: make([][]uint32, len(v.Columns))}
	for j := range s.Runs() {
		start, end := s.RunRows(j)
		in.RunLens = append(in.RunLens, end-start)
		if key := s.Key(j); key != nil {
			in.Keys = append(in.Keys, key)
		}
	}
	for i := range s.Len() {
		row := s.Row(i)
		if i == 0 {
			row = change(row)
		}
		in.Rows = append(in.Rows, row)
		if tail := s.Tail(i); tail != nil {
			in.Tails = append(in.Tails, tail)
		}
		for c := range v.Columns {
			in.Ords[c] = append(in.Ords[c], s.Ord(c, i))
		}
	}
	put := func(key func(artifacts.Digest) artifacts.Key, b []byte) artifacts.Ref {
		digest := artifacts.Sum(b)
		must.OK(tb, store.Put(ctx, key(digest), b))
		return artifacts.Ref{Digest: digest, Size: int64(len(b))}
	}
	var o artifacts.Object
	o.Add(artifacts.AppendShard(nil, in), s.Len(), v.Objects[0].First)
	v.Objects[0].Ref = put(artifacts.ObjectKey, o.Bytes())
	p.Pointer.Manifest = put(artifacts.ManifestKey, p.Manifest.Encode())
	p.Pointer.Sequence++
	must.Get(store.Swap(ctx, artifacts.CurrentKey, p.Version, p.Pointer.Encode()))(tb)
}
