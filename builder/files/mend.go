package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Without puts the sets that a manifest names without what is lost: a file that lacks a chunk is not
// listed, and a set without a list is not named. It returns the name of the sets that are left, and
// says what it left out: nothing if nothing is lost.
func Without(ctx context.Context, r artifacts.ObjectReader, m *artifacts.Manifest, lacks func(artifacts.Ref) bool,
	sign []artifacts.SignKey, put Put,
) (named artifacts.Ref, lost []string, err error) {
	sets, err := artifacts.ReadFileSets(ctx, r, m)
	if damaged(err) {
		return named, []string{"all files"}, nil
	}
	if err != nil {
		return named, nil, err
	}
	of := map[string][]string{} // the sets that lose a file, by its name
	lose := func(name string, set *artifacts.FileSet) {
		of[name] = append(of[name], set.Time.Format(time.RFC3339))
	}
	kept := &artifacts.FileSets{Format: artifacts.Format}
	for _, set := range sets.Sets {
		l, _, err := artifacts.ReadFileList(ctx, r, &set)
		if damaged(err) {
			lose(artifacts.FilesJSON, &set)
			continue
		}
		if err != nil {
			return named, nil, err
		}
		n := len(l.Items)
		l.Items = slices.DeleteFunc(l.Items, func(f artifacts.File) bool {
			whole := f.Whole(lacks)
			if !whole {
				lose(f.Name, &set)
			}
			return !whole
		})
		if len(l.Items) < n {
			if set.Files, err = put(ctx, l.Encode(sign...)); err != nil {
				return named, nil, err
			}
		}
		kept.Sets = append(kept.Sets, set)
	}
	if len(of) == 0 {
		return m.Files, nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		said := name + " of " + of[name][0]
		if n := len(of[name]); n > 1 {
			said = fmt.Sprintf("%s of %d sets, the last of %s", name, n, of[name][n-1])
		}
		lost = append(lost, said)
	}
	named, err = put(ctx, kept.Encode())
	return named, lost, err
}

// damaged reports whether a list is lost, and not of a later release.
func damaged(err error) bool { return artifacts.IsDamage(err) && !errors.Is(err, artifacts.ErrFormat) }
