// Mirrors updates mirrors of all collections for each line of its input, and then prints their state as a
// line of JSON.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

type state struct {
	Time, Digest string
	Failed       bool
}

func main() {
	client, err := marketdata.New(os.Args[1], "", marketdata.Retries(0))
	if err != nil {
		log.Fatal(err)
	}
	var mirrors []*marketdata.Mirror
	for _, collection := range []string{"assets", "categories", "chains", "exchanges"} {
		mirrors = append(mirrors, client.Mirror(collection))
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		states := map[string]state{}
		for _, m := range mirrors {
			err := m.Update(context.Background())
			at := ""
			if !m.Time.IsZero() {
				at = m.Time.UTC().Format(time.RFC3339)
			}
			states[m.Collection] = state{at, digest(m), err != nil}
		}
		if err := json.NewEncoder(os.Stdout).Encode(states); err != nil {
			log.Fatal(err)
		}
	}
}

// digest returns the SHA-256 of a text form of all of the mirror's items, ordered by id.
func digest(m *marketdata.Mirror) string {
	sum := sha256.New()
	byID := func(a, b marketdata.Entry) int { return cmp.Compare(a.ID, b.ID) }
	for _, e := range slices.SortedFunc(maps.Values(m.Items), byID) {
		var links []string
		for _, name := range slices.Sorted(maps.Keys(e.Links)) {
			links = append(links, name+"="+e.Links[name])
		}
		fields := []string{fmt.Sprint(e.ID), e.Name, e.Symbol, e.Slug, e.Logo, strings.Join(e.Explorers, "\t"),
			strings.Join(links, "\t")}
		fmt.Fprintln(sum, strings.Join(fields, "\n"))
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
