package web

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
	"time"

	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/edge/server"
)

// atomFeed is a feed as defined in RFC 4287.
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated time.Time   `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	HRef string `xml:"href,attr"`
}

type atomEntry struct {
	ID      string     `xml:"id"`
	Title   string     `xml:"title"`
	Updated time.Time  `xml:"updated"`
	Links   []atomLink `xml:"link"`
	Summary string     `xml:"summary,omitempty"`
}

// singular maps a collection to the word for one of its items, which is also the parameter of the item's page
// on the board.
var singular = map[string]string{
	"assets": "asset", "categories": "category", "chains": "chain", "exchanges": "exchange"}

// changedFields lists the fields of a change, in the order in which answers show them.
var changedFields = []string{"name", "symbol", "slug", "logo", "active", "links", "platforms", "members"}

// Feed returns the changes of a snapshot as an Atom feed. items is a JSON array of items of /changes, and t
// is the time of the snapshot.
func Feed(items []byte, t time.Time) (server.StaticFile, error) {
	var changes []struct {
		Time       time.Time
		Collection string
		Kind       string
		ID         uint64
		Name       string
		Symbol     string
		Fields     map[string]struct{ Old, New *string }
	}
	if err := json.Unmarshal(items, &changes); err != nil {
		return server.StaticFile{}, fmt.Errorf("web: changes: %w", err)
	}
	const self = openapi.Server + "/changes.atom"
	feed := atomFeed{ID: self, Title: "New and changed", Updated: t, Author: "Market data",
		Links: []atomLink{{"self", self}, {"alternate", openapi.Server + "/?view=changes"}}}
	for _, c := range changes {
		of := singular[c.Collection]
		page := openapi.Server + "/?view=changes"
		if c.Kind != "removed" {
			key := of
			if of == "asset" {
				key = "id"
			}
			page = fmt.Sprintf("%s/?%s=%d", openapi.Server, key, c.ID)
		}
		name := c.Name
		if c.Symbol != "" {
			name += " (" + c.Symbol + ")"
		}
		var lines, fields []string
		for _, field := range changedFields {
			if v, ok := c.Fields[field]; ok {
				fields = append(fields, field)
				if v.Old != nil && v.New != nil {
					lines = append(lines, fmt.Sprintf("%s: %s \u2192 %s", field, *v.Old, *v.New))
				}
			}
		}
		what := c.Kind
		if c.Kind == "changed" {
			what = strings.Join(fields, ", ") + " changed"
		}
		at := c.Time.UTC().Format(time.RFC3339)
		feed.Entries = append(feed.Entries, atomEntry{
			ID:    self + "#" + url.PathEscape(fmt.Sprintf("%s-%s-%d", at, c.Collection, c.ID)),
			Title: fmt.Sprintf("%s %s: %s", strings.ToUpper(of[:1])+of[1:], name, what), Updated: c.Time,
			Links: []atomLink{{"alternate", page}}, Summary: strings.Join(lines, "\n")})
	}
	body, err := xml.Marshal(feed)
	if err != nil {
		return server.StaticFile{}, fmt.Errorf("web: changes: %w", err)
	}
	made := file(append([]byte(xml.Header), body...), "application/atom+xml; charset=utf-8", filePolicy)
	made.Origin, made.Brotli, made.CacheControl = openapi.Server, nil, "public, max-age=300"
	return made, nil
}
