// Package redisstore keeps rate limits in Redis (version 6 or later) or Valkey, so that several edges can
// share them.
//
// Each bucket is one string. A full bucket is not stored.
//
//	marketdata:limit:<name>    "<microseconds> <nanoseconds>"
//
// The first number is a time by the server's clock, in Unix microseconds. The second is how long, from that
// time, the bucket needs to become full. A script takes tokens atomically. All its numbers are integers
// below 2^53, so it never rounds. Existing libraries count in fractions of seconds. If they grant only some
// of the tokens, they also charge for a fraction of another one.
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/internal/redact"
	"example.com/marketdata/internal/secret"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	prefix = "marketdata:limit:"

	// connections is the number of connections that stay open, so that no call waits for a new one.
	connections = 8
	dialTimeout = time.Second
)

// take is the script for Take. KEYS[1] is the bucket. The arguments are the nanoseconds between two tokens,
// the number of tokens in a full bucket, the number of tokens wanted, the number given back, and the most
// that the bucket may lack, in nanoseconds. A negative number of tokens given back may make the bucket lack
// more than it can hold.
var take = redis.NewScript(`
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local want, back, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local missing = 0
local at, was = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
if at then
  missing = math.max(0, was - math.max(0, now - at) * 1000)
end
missing = math.min(math.max(0, missing - back * interval), most)
local taken = math.max(0, math.min(want, math.floor((interval * burst - missing) / interval)))
missing = missing + taken * interval
if missing > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', now, missing), 'PX', math.ceil(missing / 1000000))
else
  redis.call('DEL', KEYS[1])
end
return {taken, missing}
`)

// Store implements limit.Store.
type Store struct {
	client *redis.Client
	secret string // the password, which must not appear in errors
}

// quiet discards the log of go-redis, because callers get the errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// Open returns the store at a URL of the form redis://user:password@host:port/db, rediss://… for TLS, or
// unix://path?db=N. It does not connect yet.
func Open(address string) (*Store, error) {
	options, err := parse(address)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{})
	return &Store{redis.NewClient(options), options.Password}, nil
}

// parse parses a store URL. Its errors never contain the URL, which may include a password.
func parse(address string) (*redis.Options, error) {
	options, err := redis.ParseURL(secret.URL("--limit-store", address))
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = errors.New("invalid URL")
		}
		return nil, fmt.Errorf("want redis://USER:PASSWORD@HOST:PORT/DB, rediss://… or unix://PATH: %w", err)
	}
	// The caller sets the deadline of each call. Do not repeat failed calls.
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	options.DialTimeout, options.DialerRetries = dialTimeout, 1
	options.PoolSize, options.MinIdleConns, options.ConnMaxIdleTime = connections, connections, -1
	// Use only commands that all servers know.
	options.Protocol = 2
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if options.TLSConfig != nil {
		options.TLSConfig.MinVersion = tls.VersionTLS12
	}
	return options, nil
}

// Take implements limit.Store.
func (s *Store) Take(ctx context.Context, name string, l limit.Limit, want, back int) (limit.Grant, error) {
	got, err := take.Run(ctx, s.client, []string{prefix + name}, int64(l.Interval()), l.Burst(), want, back,
		int64(l.Longest())).Int64Slice()
	if err != nil {
		return limit.Grant{}, fmt.Errorf("take from the limit store: %w", redact.Error(err, s.secret))
	}
	if len(got) != 2 {
		return limit.Grant{}, fmt.Errorf("take from the limit store: %d numbers, want 2", len(got))
	}
	return limit.Grant{Tokens: int(got[0]), Missing: time.Duration(got[1])}, nil
}

// Ping implements limit.Store.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping the limit store: %w", redact.Error(err, s.secret))
	}
	return nil
}

// Close implements limit.Store.
func (s *Store) Close() error { return s.client.Close() }
