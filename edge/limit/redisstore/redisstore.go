// Package redisstore keeps limits in Redis, 6 or later, or Valkey, for several
// edges to share.
//
// A bucket is one string, of which nothing is left when it is full:
//
//	marketdata:limit:<name>    "<microseconds> <nanoseconds>"
//
// how long the bucket took to be full at a time by the server's clock, in Unix
// microseconds. A script takes tokens in one step. All its numbers are whole and below
// 2^53, so that nothing is rounded. The limiters that are ready to be used
// count in fractions of seconds, and when they give some of the tokens that are
// wanted they charge for a part of one more.
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

	// connections are kept open, so that no call waits for one to be made.
	connections = 8
	dialTimeout = time.Second
)

// take: KEYS the bucket; ARGV nanoseconds between two tokens, tokens in a full
// bucket, tokens wanted, tokens given back, the most nanoseconds that the bucket
// may be short of. What was used and not taken may leave it short of more than it holds.
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

// Store is a limit.Store.
type Store struct {
	client *redis.Client
	secret string // the password, which a server's error must not repeat
}

// quiet drops what go-redis would log: the caller gets the error.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// Open returns the store at an address: redis://user:password@host:port/db,
// rediss://… for TLS, or unix://path?db=N. Nothing is asked of it yet.
func Open(address string) (*Store, error) {
	options, err := parse(address)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{})
	return &Store{redis.NewClient(options), options.Password}, nil
}

// parse never says the address in an error: it may hold a password.
func parse(address string) (*redis.Options, error) {
	options, err := redis.ParseURL(secret.URL("--limit-store", address))
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = errors.New("this is no URL")
		}
		return nil, fmt.Errorf("want redis://USER:PASSWORD@HOST:PORT/DB, rediss://… or unix://PATH: %w", err)
	}
	// Deadlines are those of the calls, and each call is one attempt.
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	options.DialTimeout, options.DialerRetries = dialTimeout, 1
	options.PoolSize, options.MinIdleConns, options.ConnMaxIdleTime = connections, connections, -1
	// Plain commands of any server.
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
