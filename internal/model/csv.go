package model

import (
	rfc4180 "encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// csvSuffix is the suffix of the paths that return tables.
const csvSuffix = ".csv"

// tables describes the tables (INTERFACE.md, "CSV"). list names the array in an item that yields
// one row per element. An element fills the column "time" and all columns after it.
var tables = map[string]struct{ columns, list string }{
	markets: {columns: "id rank name symbol slug logo price market_cap volume " +
		"percent_change.1h percent_change.6h percent_change.12h percent_change.24h percent_change.7d " +
		"percent_change.30d percent_change.90d percent_change.1y since"},
	history: {"id name symbol slug time price", "points"},
	candles: {"id name symbol slug time open high low close market_cap volume", "candles"},
	prices:  {"id name symbol slug time snapshot_time price market_cap volume", "prices"},
}

// CheckTable returns an error if the body is not a valid table: if it has other columns, is not
// CSV, or has a line that does not end in CR LF.
func CheckTable(q *Query, body string) error {
	header, _, _ := strings.Cut(Table(q, envelope(`{"items":[]}`)), "\r\n")
	records, err := rfc4180.NewReader(strings.NewReader(body)).ReadAll()
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(body, header+"\r\n") || !strings.HasSuffix(body, "\r\n"):
		return fmt.Errorf("the table begins with %.200q, want the columns %s", body, header)
	case int64(len(records)-1) > q.Size && tables[q.Endpoint].list == "":
		return fmt.Errorf("%d rows, want at most %d", len(records)-1, q.Size)
	}
	return nil
}

// Table converts the body of a listing to a table (INTERFACE.md, "CSV").
func Table(q *Query, body string) string {
	of := tables[q.Endpoint]
	columns := strings.Fields(of.columns)
	if q.Endpoint == markets && q.Tails {
		columns = append(columns, "groups.categories", "groups.chains")
	}
	var answer struct {
		Result struct {
			Items []map[string]any `json:"items"`
		} `json:"result"`
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&answer); err != nil {
		panic("model: " + err.Error())
	}
	var b strings.Builder
	b.WriteString(strings.Join(columns, ",") + "\r\n")
	for _, item := range answer.Result.Items {
		if of.list == "" {
			writeRecord(&b, columns, item)
			continue
		}
		first := slices.Index(columns, "time")
		for _, element := range item[of.list].([]any) {
			switch element := element.(type) {
			case map[string]any:
				for _, name := range columns[first:] {
					item[name] = element[name]
				}
			case []any:
				for i, name := range columns[first:] {
					item[name] = element[i]
				}
			}
			writeRecord(&b, columns, item)
		}
	}
	return b.String()
}

var (
	formula = regexp.MustCompile("^[=+\\-@\t\r]")
	numeral = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)

func writeRecord(b *strings.Builder, columns []string, item map[string]any) {
	record := make([]string, len(columns))
	for i, name := range columns {
		var value any = item
		for _, part := range strings.SplitN(name, ".", 2) {
			value = value.(map[string]any)[part]
		}
		cell := ""
		switch value := value.(type) {
		case string:
			cell = value
		case json.Number:
			cell = value.String()
		case []any:
			for i, element := range value {
				if i > 0 {
					cell += ","
				}
				cell += element.(string)
			}
		}
		if formula.MatchString(cell) && !numeral.MatchString(cell) {
			cell = "'" + cell
		}
		record[i] = cell
	}
	var line strings.Builder
	w := rfc4180.NewWriter(&line) // UseCRLF would also change the line breaks within cells.
	_ = w.Write(record)
	w.Flush()
	b.WriteString(strings.TrimSuffix(line.String(), "\n") + "\r\n")
}
