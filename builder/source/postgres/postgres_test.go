package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
	"github.com/jackc/pgx/v5/pgconn"
)

// schema has columns of many types.
const schema = `
create table asset (id bigint primary key, name text, symbol varchar(20), slug text, explorers text[], active bool);
insert into asset values
 (1, 'Bit "coin"', 'BTC', 'bitcoin', '{"https://a.example/?q={1,2}",NULL,https://b.example}', true),
 (2, E'Ether\n\\', 'ETH', 'ether', '{}', false), (3, '', 'X', 'x', NULL, NULL);
create table quote (asset bigint, price numeric, cap numeric, volume numeric, at timestamptz);
insert into quote values
 (1, 91000.123456789012345678, 1815000000000, 0.10, '2026-11-21 11:05:31.5+01'), (2, 0.000000000000000001, NULL, NULL, '2026-11-21 10:00:00Z'), (3, 'NaN', 1, 1, NULL);
create table exchange (id bigint, name text, info json, volume numeric, markets numeric);
insert into exchange values (10, 'Northex', '{"website": "https://n.example",
 "chat": "c|d"}', 12345678901234567890.12345678, 812);
`

var queries = map[string]string{
	"feed":       `select 'prices' as database, max(at) as time from quote`,
	"assets":     `select id as key, id, name, symbol, slug, explorers, active from asset order by id`,
	"quotes":     `select asset as key, price, cap as market_cap, volume from quote`,
	"exchanges":  `select name as key, name, name as slug, info as links, volume as "market.volume_24h", markets as "market.markets_count", (select max(at) from quote) as "market.data_time", 0.10 as "fees.taker" from exchange`,
	"categories": `select 'l1' as key, 'Layer 1' as name, 'l1' as slug, array_agg(id) as members from asset`,
	"chains":     `select 'e' as key, 'E' as name, 'e' as slug, '["2"]'::jsonb as members, 1::int as evm_chain_id, 2::bigint as native`,
}

type server struct{ address string }

func start(t *testing.T) *server {
	t.Helper()
	address, password := testserver.Postgres(t)
	t.Setenv("PGPASSWORD", password)
	s := &server{address}
	s.exec(t, schema)
	return s
}

func (s *server) exec(t *testing.T, sql string) {
	t.Helper()
	conn := must.Get(pgconn.Connect(t.Context(), s.address))(t)
	defer conn.Close(context.Background())
	must.Get(conn.Exec(t.Context(), sql).ReadAll())(t)
}

// files returns the feed of the queries, with the queries in others instead of the usual ones.
func (s *server) files(t *testing.T, others map[string]string) (source.Files, error) {
	t.Helper()
	values := url.Values{}
	for name, text := range queries {
		if other, ok := others[name]; ok {
			text = other
		}
		if text != "" {
			values.Set("sql."+name, text)
		}
	}
	if timeout := others["timeout"]; timeout != "" {
		values.Set("timeout", timeout)
	}
	src := must.Get(Open(t.Context(), strings.TrimPrefix(s.address, "postgres:")+"?"+values.Encode()))(t)
	return src.Files(t.Context(), time.Time{})
}

func (s *server) everyType(t *testing.T) {
	files := must.Get(s.files(t, nil))(t)
	feed, report, err := source.Read(t.Context(), files, source.ReadOptions{})
	ok(t, err)
	var rejected []string
	for _, f := range report.Files {
		for _, r := range f.Rejections {
			rejected = append(rejected, r.String())
		}
	}
	if want := `sql.assets: row 3: key "3": name: empty; sql.quotes: row 3: key "3": price: not a decimal, such as 12.5 or 1e-5: NaN`; strings.Join(rejected, "; ") != want {
		t.Errorf("set aside: %q", rejected)
	}
	if want := time.Date(2026, 11, 21, 10, 5, 31, 5e8, time.UTC); feed.Database != "prices" || !feed.Time.Equal(want) {
		t.Errorf("database %s, time %v", feed.Database, feed.Time)
	}
	a := feed.Assets
	if len(a) != 2 || a[0].Key != "1" || a[0].ID != 1 || a[0].Name != `Bit "coin"` ||
		strings.Join(a[0].Explorers, " ") != "https://a.example/?q={1,2} https://b.example" ||
		a[1].Name != "Ether\\" || a[1].Active {
		t.Errorf("assets %+v", a)
	}
	decimal := func(u market.U128, decimals int) string { return string(market.AppendDecimal(nil, u, decimals)) }
	q := feed.Quotes
	if len(q) != 2 || decimal(q[0].Price, market.PriceDecimals) != "91000.123456789012345678" || decimal(q[0].Volume,
		market.MoneyDecimals) != "0.1" || decimal(q[1].Price, market.PriceDecimals) != "0.000000000000000001" {
		t.Errorf("quotes %+v", q)
	}
	x := feed.Exchanges
	if len(x) != 1 || x[0].Links[0] != "https://n.example" ||
		decimal(*x[0].Market.Volume, market.MoneyDecimals) != "12345678901234567890.12345678" ||
		*x[0].Market.MarketsCount != 812 || x[0].Market.DataTime.Format(time.RFC3339) != "2026-11-21T10:05:31Z" ||
		decimal(x[0].Taker, market.MoneyDecimals) != "0.1" {
		t.Errorf("exchanges %+v", x)
	}
	if g := feed.Categories; len(g) != 1 || len(g[0].Members) != 2 || report.UnknownMembers != 1 {
		t.Errorf("categories %+v", g)
	}
	if g := feed.Chains; len(g) != 1 || len(g[0].Members) != 1 || *g[0].EVMChainID != 1 || g[0].Native != 1 {
		t.Errorf("chains %+v", g)
	}
}

func (s *server) assetsAlone(t *testing.T) {
	before := time.Now().Truncate(time.Second)
	files, err := s.files(t, map[string]string{"feed": "", "chains": "",
		"quotes": "select 1 as key, 1 as price where false"})
	ok(t, err)
	feed, _, err := source.Read(t.Context(), files, source.ReadOptions{})
	if err != nil || feed.Database != "postgres" || feed.Time.Before(before) || feed.Time.After(time.Now()) ||
		len(feed.Quotes)+len(feed.Chains) != 0 {
		t.Errorf("%+v, %v", feed, err)
	}
}

// words checks that a report speaks of queries, rows and columns, and names a file whose name
// resembles a query's.
func (s *server) words(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"assets":    `select id as key, name, symbol, slug, name as title from asset where id = 1`,
		"exchanges": `select 'x' as key, 'X' as name, 'x' as slug, '{"homepage":"https://x"}'::jsonb as links`,
		"chain":     `select 1`,
		"feed":      queries["feed"],
		"quotes":    `select asset as key, -1 as price from quote where asset = 1`,
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name+".sql"), []byte(text), 0o600))
	}
	src := must.Get(Open(t.Context(), strings.TrimPrefix(s.address, "postgres:")+"?sql="+dir))(t)
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	_, report, err := source.Read(t.Context(), files, source.ReadOptions{})
	ok(t, err)
	var said []string
	for _, f := range report.Files {
		for _, p := range append(f.Rejections, f.Warnings...) {
			said = append(said, p.String())
		}
	}
	if got, want := strings.Join(said, "\n"), `assets.sql: title: unknown column, ignored
quotes.sql: row 1: key "1": price: negative: -1
exchanges.sql: row 1: key "x": links.homepage: unknown field, ignored: https://x; did you mean links.website?
chain.sql: unknown file, ignored; did you mean chains.sql?`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// arrays checks that a value is an array because of its column's type, not because of its text form
// (lib/pq 1128, node-postgres 870: PostgreSQL writes bounds that do not start at 1). It also tests
// arrays of other types or with several dimensions, strings that look like arrays, and numbers,
// which are not arrays.
func (s *server) arrays(t *testing.T) {
	s.exec(t, `create type kind as enum ('btc', 'eth'); create domain word as text`)
	assets := `select k as key, k as name, k as symbol, k as slug, %s as explorers from unnest('{btc,eth}'::text[]) k`
	for _, c := range []struct{ value, explorers, members string }{
		{`'[0:1]={btc,eth}'::text[]`, "btc eth", "btc eth"},
		{`'[-1:0][1:1]={{btc},{eth}}'::varchar[]`, "btc eth", "btc eth"},
		{`'[2:4]={btc,NULL,eth}'::kind[]`, "btc eth", "btc eth"}, {`'[5:5]={eth}'::word[]`, "eth", "eth"},
		{`'{}'::text[]`, "", ""}, {`'{btc,eth}'::text`, "{btc,eth}", ""}, {`'btc|eth'::text`, "btc eth", "btc eth"},
		{`'[0:1]={btc,eth}'::text`, "[0:1]={btc,eth}", ""},
	} {
		files := must.Get(s.files(t, map[string]string{
			"assets": fmt.Sprintf(assets, c.value), "feed": "", "exchanges": "", "chains": "",
			"quotes": `select 'btc' as key, 1 as price, 'NaN'::numeric as market_cap, 'Infinity'::numeric as volume,
				'-Infinity'::numeric as max_supply`,
			"categories": `select 'g' as key, 'G' as name, 'g' as slug, ` + c.value + ` as members`,
		}))(t)
		feed, report, err := source.Read(t.Context(), files, source.ReadOptions{})
		ok(t, err)
		var members []string
		for _, g := range feed.Categories {
			for _, m := range g.Members {
				members = append(members, feed.Assets[m].Key)
			}
		}
		if len(feed.Assets) != 2 || strings.Join(feed.Assets[0].Explorers, " ") != c.explorers ||
			strings.Join(members, " ") != c.members {
			t.Errorf("%s: %+v, members %q", c.value, feed.Assets, members)
		}
		if q := report.Files[1]; len(feed.Quotes) != 1 || q.Warned != 3 || !feed.Quotes[0].MarketCap.IsZero() {
			t.Errorf("%s: %+v, %+v", c.value, feed.Quotes, q)
		}
	}
}

func (s *server) oneState(t *testing.T) {
	// All rows are deleted while the query for the quotes waits for a lock. This query and the
	// later ones see the rows nevertheless.
	holder := must.Get(pgconn.Connect(t.Context(), s.address))(t)
	defer holder.Close(context.Background())
	must.Get(holder.Exec(t.Context(), "select pg_advisory_lock(1)").ReadAll())(t)
	removed := make(chan error, 1)
	go func() {
		_, err := holder.Exec(t.Context(), `
			do $$ begin while not exists (select from pg_locks where locktype = 'advisory' and not granted) loop perform pg_sleep(0.01); end loop; end $$;
			delete from asset; delete from quote; commit; select pg_advisory_unlock(1)`).ReadAll()
		removed <- err
	}()
	files, err := s.files(t, map[string]string{
		"feed":      "",
		"quotes":    "select asset as key, price from quote where (select pg_advisory_lock_shared(1)) is not null",
		"exchanges": `select id as key, name, slug from asset`,
	})
	ok(t, <-removed)
	ok(t, err)
	feed, _, err := source.Read(t.Context(), files, source.ReadOptions{})
	if err != nil || len(feed.Assets) != 2 || len(feed.Quotes) != 2 || len(feed.Exchanges) != 2 {
		t.Errorf("%+v, %v", feed, err)
	}
}

func TestPostgres(t *testing.T) {
	s := start(t)
	t.Run("every type", s.everyType)
	t.Run("without feed and others", s.assetsAlone)
	t.Run("words", s.words)
	t.Run("arrays", s.arrays)
	t.Run("one state", s.oneState)
	for name, test := range map[string]struct{ query, text, want string }{
		"floating point": {
			"quotes", "select 'a' as key, 0.1::float8 as price",
			"sql.quotes: the column price is of binary floating point",
		},
		"no key":         {"quotes", "select 0.1 as price", "no column is named key"},
		"twice":          {"quotes", "select 1 as key, 1 as key", "second time"},
		"a wrong column": {"quotes", "select nothing from quote", `column "nothing" does not exist`},
		"not a query":    {"quotes", "commit", "no column is named key"},
		"two statements": {"quotes", "select 1 as key; commit", "want one statement"},
		"no time zone": {
			"feed", "select 'a' as database, now()::timestamp as time", "such as time at time zone 'UTC'",
		},
		"a writing query": {"quotes", "delete from asset returning id as key", "read-only transaction"},
		"feed without rows": {
			"feed", "select 'a' as database, now() as time where false",
			"sql.feed: want a row with the columns database and time",
		},
		"feed without time": {"feed", "select 'a' as database, null::timestamptz as time", "want a row"},
		"breaks off":        {"quotes", "select 1/(3-n) as key from generate_series(1,9) n", "division by zero"},
		"slow":              {"quotes", "select pg_sleep(60) as key", "statement timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.files(t, map[string]string{
				"feed": "", test.query: test.text, "timeout": "1s",
			}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}

	t.Run("a wrong password", func(t *testing.T) {
		t.Setenv("PGPASSWORD", "wrong-and-secret")
		if _, err := s.files(t, nil); err == nil || !strings.Contains(err.Error(), "password authentication failed") ||
			strings.Contains(err.Error(), "wrong-and-secret") {
			t.Errorf("%v", err)
		}
	})
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PGPASSWORD", "secret \r\n") // files with secrets often end in white space (row K9)
	ok(t, os.WriteFile(filepath.Join(dir, "assets.sql"), []byte("select of a file"), 0o600))
	src := must.Get(Open(t.Context(), "//u@h.example/db?sslmode=disable&sql.quotes=select+1&sql="+dir))(t)
	d := src.(*database)
	if d.String() != "postgres://u@h.example/db" || d.queries["assets"] != "select of a file" ||
		d.queries["quotes"] != "select 1" || d.config.Password != "secret" || d.timeout != defaultTimeout {
		t.Errorf("%s: %+v", d, d.queries)
	}
	for rest, want := range map[string]string{
		"//u@h/db":                                      "in the folder sql; want postgres://USER@HOST:PORT/DATABASE?sql=DIR",
		"u@h/db?sql.assets=x":                           "not a URL",
		"//u:secret@h:x/db?sql.assets=x":                "not a URL",
		"//u:secret@h/db?sql.assets=x":                  "set PGPASSWORD",
		"//u@h/db?sql.assets=x&password=secret":         "set PGPASSWORD",
		"//u@h/db?sql.assets=x&sslpassword=secret":      "set PGPASSWORD",
		"//u@h/db?sql.assets=x;y":                       "%3B",
		"//u@h/db?sql.assets=x&sql.asset=y":             `"sql.asset"`,
		"//u@h/db?sql.assets=x&search_path=y":           `"search_path"`,
		"//u@h/db?sql.assets=x&sslmode=maybe":           "sslmode",
		"//u@h/db?sql.assets=x&timeout=1h":              "timeout=1h: want 1s to 5m0s",
		"//u@h/db?sql=" + filepath.Join(dir, "nowhere"): "no query for the assets",
	} {
		_, err := Open(t.Context(), rest)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", rest, err, want)
		}
	}
}

var ok = must.OK
