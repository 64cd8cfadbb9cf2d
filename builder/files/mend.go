package files

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
)

// Without puts new lists for a manifest's file sets, without the lost files. A list omits files
// that lack a chunk, and the sets omit each set whose list is lost. Without returns the reference
// to the remaining sets, and a description of the lost files, which is "" if nothing is lost.
func Without(ctx context.Context, r artifacts.ObjectReader, m *artifacts.Manifest, lacks func(artifacts.Ref) bool,
	sign []artifacts.SignKey, put Put,
) (named artifacts.Ref, lost string, err error) {
	sets, err := artifacts.ReadFileSets(ctx, r, m)
	if artifacts.IsDamage(err) {
		return named, "any files", nil
	}
	if err != nil {
		return named, "", err
	}
	of := map[string][]time.Time{} // the sets that lose a file, by file name
	kept := &artifacts.FileSets{Format: artifacts.Format}
	for _, set := range sets.Sets {
		l, _, err := artifacts.ReadFileList(ctx, r, &set)
		if artifacts.IsDamage(err) {
			of[artifacts.FilesJSON] = append(of[artifacts.FilesJSON], set.Time)
			continue
		}
		if err != nil {
			return named, "", err
		}
		n := len(l.Items)
		l.Items = slices.DeleteFunc(l.Items, func(f artifacts.File) bool {
			if f.Whole(lacks) {
				return false
			}
			of[f.Name] = append(of[f.Name], set.Time)
			return true
		})
		if len(l.Items) < n {
			if set.Files, err = put(ctx, l.Encode(sign...)); err != nil {
				return named, "", err
			}
		}
		kept.Sets = append(kept.Sets, set)
	}
	if len(of) == 0 {
		return m.Files, "", nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		times := of[name]
		names = append(names, fmt.Sprintf("%s of %d sets, the last of %s", name, len(times),
			times[len(times)-1].Format(time.RFC3339)))
	}
	named, err = put(ctx, kept.Encode())
	return named, strings.Join(names, "; "), err
}
