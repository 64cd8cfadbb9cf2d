// Package postgres reads a feed from a PostgreSQL database, with one query for each file (FEED.md,
// "Tables"). All queries run in one read-only transaction, so that they see the same state.
//
//	postgres://market@db.example/prices?sslmode=verify-full&sql=/etc/market/sql
//
// The database sends values as text, so a numeric keeps all its digits. A column of a binary
// floating-point type is an error.
package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/secret"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Limits for reading a feed.
const (
	// feedTime limits the total time of all queries. defaultTimeout and maxTimeout are the default
	// and the maximum for the time of one query.
	feedTime       = 5 * time.Minute
	defaultTimeout = time.Minute
	maxTimeout     = feedTime
	// maxRows is the maximum size of all rows of a query, as lines of a feed file, in bytes.
	maxRows = 1 << 30
)

// infoQuery is the name of the query for feed.json. Only the query for assets is required.
const infoQuery = "feed"

var queryNames = []string{infoQuery, "assets", "quotes", "exchanges", "categories", "chains", "rates"}

const want = "want postgres://USER@HOST:PORT/DATABASE?sql=DIR, a folder with assets.sql, quotes.sql and so on, or " +
	"&sql.assets=QUERY&sql.quotes=QUERY…; timeout=DURATION, sslmode, sslrootcert, sslcert, sslkey, passfile, " +
	"connect_timeout, application_name and target_session_attrs are optional"

// passed lists the URL's parameters that are passed on to the database client.
var passed = []string{
	"user", "host", "port", "database", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile", "connect_timeout",
	"application_name", "target_session_attrs",
}

// database is a PostgreSQL database as a source.
type database struct {
	name    string // for logs
	config  *pgconn.Config
	queries map[string]string // by name
	places  map[string]string // where the queries come from, by name: quotes.sql, or sql.quotes for a query in the URL
	others  []string          // the files in the folder of the queries
	timeout time.Duration
	now     func() time.Time
}

// Open opens postgres:REST, or postgresql:REST. It is a source.Opener. It does not connect to the
// database yet.
func Open(_ context.Context, rest string) (source.Source, error) {
	d, err := parse(rest)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, want)
	}
	return d, nil
}

func parse(rest string) (*database, error) {
	// Do not return the error of url.Parse: it quotes the URL, which may contain a password.
	u, err := url.Parse("postgres:" + rest)
	if err != nil || !strings.HasPrefix(rest, "//") {
		return nil, errors.New("not a URL")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("query: a % that is not followed by two hexadecimal digits, or a ; that is not " +
			"written %3B")
	}
	if _, given := u.User.Password(); given || query.Has("password") || query.Has("sslpassword") {
		return nil, errors.New("a password in the URL would be seen in logs: set PGPASSWORD, or keep it in a passfile")
	}
	d := &database{
		queries: map[string]string{}, places: map[string]string{}, timeout: defaultTimeout, now: time.Now,
	}
	if dir := query.Get("sql"); dir != "" {
		if err := d.readQueries(dir); err != nil {
			return nil, err
		}
	}
	for _, name := range queryNames {
		if text := query.Get("sql." + name); text != "" {
			d.queries[name], d.places[name] = text, "sql."+name
		}
		query.Del("sql." + name)
	}
	if text := query.Get("timeout"); text != "" {
		if d.timeout, err = time.ParseDuration(text); err != nil || d.timeout < time.Second || d.timeout > maxTimeout {
			return nil, fmt.Errorf("timeout=%.40s: want 1s to %v", text, maxTimeout)
		}
	}
	query.Del("sql")
	query.Del("timeout")
	if d.queries["assets"] == "" {
		return nil, errors.New("there is no query for the assets, neither sql.assets nor assets.sql in the folder sql")
	}
	u.RawQuery = ""
	d.name = u.String()
	u.RawQuery = query.Encode()
	for _, name := range []string{"PGPASSWORD", "PGSSLPASSWORD"} { // pgconn reads these variables itself
		if os.Getenv(name) != "" {
			_ = os.Setenv(name, secret.Env(name)) // the name is valid
		}
	}
	d.config, err = pgconn.ParseConfigWithOptions(u.String(), pgconn.ParseConfigOptions{ConnStringAllowedKeys: passed})
	return d, err
}

// readQueries reads NAME.sql for each query, if it exists.
func (d *database) readQueries(dir string) error {
	for _, name := range queryNames {
		text, err := os.ReadFile(filepath.Join(dir, name+".sql"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sql: %w", err)
		}
		d.queries[name], d.places[name] = string(text), name+".sql"
	}
	entries, _ := os.ReadDir(dir) // only for suggestions
	for _, e := range entries {
		d.others = append(d.others, e.Name())
	}
	return nil
}

// String returns the name of the database, without the queries.
func (d *database) String() string { return d.name }

// begin opens a transaction, so that all queries see the same state, and sets the format of times.
// If the builder stops in the middle, the server soon ends the transaction, because it is idle. The
// last statement returns the array types that the database has in addition to PostgreSQL's own,
// such as arrays of enums and domains.
const begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL statement_timeout = %[1]d; SET LOCAL idle_in_transaction_session_timeout = %[1]d;
SET LOCAL client_encoding = 'UTF8'; SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO';
SELECT typarray FROM pg_catalog.pg_type WHERE typarray >= 16384 AND typtype <> 'c'`

// Files runs all queries. Unless there is a query for the feed's time, the time is the present,
// taken before the first query runs.
func (d *database) Files(ctx context.Context, _ time.Time) (source.Files, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTime)
	defer cancel()
	feed := source.Results{
		Memory:  source.Memory{source.InfoFile: source.Info(d.config.Database, d.now())},
		Columns: map[string][]string{}, Names: map[string]string{}, Others: d.others,
	}
	for _, name := range queryNames {
		feed.Names[fileOf(name)] = cmp.Or(d.places[name], name+".sql")
	}
	conn, err := pgconn.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, err
	}
	// The transaction has nothing to commit, so it can end with the connection.
	defer conn.Close(ctx)
	begun, err := conn.Exec(ctx, fmt.Sprintf(begin, d.timeout.Milliseconds())).ReadAll()
	if err != nil {
		return nil, err
	}
	t := types{pgtype.NewMap(), map[string]bool{}}
	for _, row := range begun[len(begun)-1].Rows {
		t.arrays[string(row[0])] = true
	}
	for _, name := range queryNames {
		if d.queries[name] == "" {
			continue
		}
		rows := conn.ExecParams(ctx, d.queries[name], nil, nil, nil, nil) // a single statement, with values as text
		file := fileOf(name)
		if name == infoQuery {
			feed.Memory[file], err = readInfo(rows)
		} else {
			feed.Columns[file] = columnNames(rows)
			feed.Memory[file], err = t.readLines(file, rows)
		}
		if _, closeErr := rows.Close(); closeErr != nil {
			err = closeErr // explains why there were no more rows
		}
		if err != nil && strings.Contains(err.Error(), "multiple commands") {
			err = fmt.Errorf("want one statement: %w", err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.places[name], err)
		}
	}
	return feed, nil
}

// fileOf returns the name of the feed's file that a query produces.
func fileOf(query string) string {
	if query == infoQuery {
		return source.InfoFile
	}
	return query + ".ndjson"
}

func columnNames(rows *pgconn.ResultReader) []string {
	names := make([]string, 0, len(rows.FieldDescriptions()))
	for _, c := range rows.FieldDescriptions() {
		names = append(names, c.Name)
	}
	return names
}

// readInfo makes feed.json from a row.
func readInfo(rows *pgconn.ResultReader) ([]byte, error) {
	info := map[string]json.RawMessage{"format": json.RawMessage("1")}
	for n := 0; rows.NextRow(); n++ {
		for i, value := range rows.Values() {
			column := rows.FieldDescriptions()[i]
			if column.DataTypeOID == pgtype.TimestampOID {
				return nil, fmt.Errorf("the column %[1]s has no time zone: want timestamptz, such as %[1]s at time zone 'UTC'",
					column.Name)
			}
			if n == 0 && value != nil {
				info[column.Name] = types{}.fieldValue(column, value)
			}
		}
	}
	if info["database"] == nil || info["time"] == nil {
		return nil, errors.New("want a row with the columns database and time")
	}
	return json.Marshal(info)
}

// types tells which columns are arrays.
type types struct {
	own    *pgtype.Map
	arrays map[string]bool // array types of the database itself, by OID
}

// isArray reports whether a column's type is an array.
func (t types) isArray(c pgconn.FieldDescription) bool {
	if t.own == nil {
		return false
	}
	if known, ok := t.own.TypeForOID(c.DataTypeOID); ok {
		_, array := known.Codec.(*pgtype.ArrayCodec)
		return array
	}
	return t.arrays[strconv.FormatUint(uint64(c.DataTypeOID), 10)]
}

// readLines makes the lines of a feed's file from rows.
func (t types) readLines(file string, rows *pgconn.ResultReader) ([]byte, error) {
	columns := rows.FieldDescriptions()
	for _, c := range columns {
		if c.DataTypeOID == pgtype.Float4OID || c.DataTypeOID == pgtype.Float8OID {
			return nil, fmt.Errorf("the column %s is of binary floating point, which is not exact: want numeric",
				c.Name)
		}
	}
	table, err := source.NewTable(file, columnNames(rows))
	if err != nil {
		return nil, err
	}
	var out []byte
	values := make([][]byte, len(columns))
	for rows.NextRow() {
		for i, value := range rows.Values() {
			if values[i] = nil; value != nil {
				values[i] = t.fieldValue(columns[i], value)
			}
		}
		if out = table.AppendLine(out, values); len(out) > maxRows {
			return nil, fmt.Errorf("the rows are more than %d bytes", maxRows)
		}
	}
	return out, nil
}

// fieldValue converts the text of a column's value to JSON.
func (t types) fieldValue(c pgconn.FieldDescription, text []byte) []byte {
	switch {
	case !utf8.Valid(text): // from a database without an encoding
		return append(append([]byte{'"'}, text...), '"') // the reader sets the row aside, since it is not UTF-8
	case c.DataTypeOID == pgtype.JSONOID || c.DataTypeOID == pgtype.JSONBOID:
		var b bytes.Buffer
		if json.Compact(&b, text) == nil {
			return b.Bytes()
		}
	case c.DataTypeOID == pgtype.TimestamptzOID: // 2026-11-21 10:05:31.5+00
		text = bytes.Replace(bytes.Replace(text, []byte(" "), []byte("T"), 1), []byte("+00"), []byte("Z"), 1)
	case t.isArray(c):
		// All types of arrays have the same text form, some with bounds.
		var elements []*string
		if t.own.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, text, &elements) == nil {
			list := make([]string, 0, len(elements))
			for _, e := range elements {
				if e != nil {
					list = append(list, *e)
				}
			}
			return source.List(list)
		}
	}
	return source.Value(c.Name, text)
}
