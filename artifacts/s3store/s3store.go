package s3store

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/internal/refusal"
	"example.com/marketdata/artifacts/internal/selftest"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/internal/redact"
	"github.com/minio/minio-go/v7"
)

// Store is an artifacts.Store in a bucket; see the package documentation.
type Store struct {
	client    *minio.Core
	transport *http.Transport
	clock     *clock
	bucket    string
	prefix    string // prefix of every key: empty, or ends with a slash
	signer    *signer
}

var (
	_ artifacts.Store = (*Store)(nil)
	_ artifacts.Clock = (*Store)(nil)
)

// Close closes idle connections. The store remains usable.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// errRefused means that the condition of a write was not met, so nothing was written.
var errRefused = errors.New("refused by its condition")

// The permissions that requests need.
const (
	toGet    = "s3:GetObject (of a missing object, s3:ListBucket)"
	toPut    = "s3:PutObject"
	toDelete = "s3:DeleteObject"
	toList   = "s3:ListBucket"
)

// classify converts err, an error of the S3 client, into an error that callers can act on. action
// is the permission that the request needs.
func (s *Store) classify(action string, err error) error {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		var u *url.Error
		if errors.As(err, &u) { // The error of the operation is ours, but net/http's error may quote the answer.
			u.Err = redact.Error(u.Err)
			var certificate *tls.CertificateVerificationError
			if errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &certificate) {
				return fmt.Errorf("%w: %w", artifacts.ErrNoAccess, err)
			}
			return err
		}
		return redact.Error(err)
	}
	code := redact.Text(answer.Code)
	err = redact.Error(err)
	// The client turns a 404 without an S3 error document, for example one from a proxy, into a
	// missing key. Such a 404 says nothing about the key.
	document := answer.XMLName.Local == "Error"
	switch {
	case answer.StatusCode == http.StatusNotFound && answer.Code == minio.NoSuchKey && document:
		return artifacts.ErrNotFound
	case answer.StatusCode == http.StatusNotModified:
		return artifacts.ErrNotModified
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	err = fmt.Errorf("%s (HTTP status %d): %w", code, answer.StatusCode, err)
	switch {
	case answer.StatusCode == http.StatusConflict: // Another request for the key is in progress.
		return &artifacts.BusyError{Undone: true, Err: fmt.Errorf("%w: %w", errRefused, err)}
	case answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode == http.StatusServiceUnavailable:
		// MinIO says SlowDownWrite after it has written a part, and a proxy's 503 may hide any
		// outcome.
		undone := answer.StatusCode == http.StatusTooManyRequests || answer.Code == "SlowDown"
		return &artifacts.BusyError{After: s.clock.pause(), Undone: undone, Err: err}
	}
	known := refusal.Answer{
		Status: answer.StatusCode, Code: answer.Code, Region: redact.Text(answer.Region),
		Endpoint: s.client.EndpointURL().String(), Bucket: s.bucket, Access: s.signer.from, Action: action,
	}.Explain()
	switch {
	case known != nil && isCredential(answer.Code):
		return fmt.Errorf("%w%s: %w", known, s.signer.why(), err)
	case known != nil:
		return fmt.Errorf("%w: %w", known, err)
	case answer.StatusCode == http.StatusBadRequest && !document:
		err = fmt.Errorf("%w; is %s the right address, with or without TLS (https://)?", err, s.client.EndpointURL())
	}
	// Amazon answers 400 RequestTimeout.
	passing := answer.StatusCode == http.StatusRequestTimeout || answer.Code == "RequestTimeout"
	if (action == toPut || action == toDelete) && answer.StatusCode/100 == 4 && !passing {
		err = fmt.Errorf("%w: %w", artifacts.ErrRefused, err)
	}
	return err
}

func ready(ctx context.Context, key artifacts.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return key.Check()
}

// Get implements artifacts.Reader.
func (s *Store) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	return s.GetIf(ctx, key, "", limit)
}

// GetIf implements artifacts.Reader.
func (s *Store) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	err := ready(ctx, key)
	var b []byte
	var v artifacts.Version
	if err == nil {
		b, v, err = s.read(ctx, key, known, limit)
	}
	if err != nil {
		return nil, "", fmt.Errorf("get %.100s: %w", key, err)
	}
	return b, v, nil
}

// read implements GetIf. For an object that is too large it also returns the version.
func (s *Store) read(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	stall := readStall
	if key.Kind() == artifacts.CellKind {
		stall = cellStall
	}
	watched, progress, stop := watch(ctx, stall)
	defer stop()
	b, v, err := s.readWatched(watched, progress, key, known, limit)
	if err != nil && ctx.Err() == nil && watched.Err() != nil {
		err = context.Cause(watched)
	}
	return b, v, err
}

func (s *Store) readWatched(
	ctx context.Context, progress func(), key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	var opts minio.GetObjectOptions
	if known != "" {
		if err := opts.SetMatchETagExcept(string(known)); err != nil {
			return nil, "", err
		}
	}
	var body io.ReadCloser
	var info minio.ObjectInfo
	err := s.signed(func() (err error) {
		body, info, _, err = s.client.GetObject(ctx, s.bucket, s.prefix+key.String(), opts)
		return err
	})
	if err != nil {
		return nil, "", s.classify(toGet, err)
	}
	defer body.Close() // This also closes the connection if the body was not read.
	progress()
	b, err := readBody(progressReader{body, progress}, info.Size, limit)
	if err == nil && info.ETag == "" {
		err = errors.New("the store sent no ETag")
	}
	return b, artifacts.Version(info.ETag), err
}

// readBody reads a body of size bytes, or of unknown size if size is -1. It reads at most limit+1
// bytes.
func readBody(body io.Reader, size, limit int64) ([]byte, error) {
	var b []byte
	var err error
	switch {
	case size > limit:
	case size >= 0:
		b = make([]byte, size)
		_, err = io.ReadFull(body, b)
	default:
		b, err = io.ReadAll(io.LimitReader(body, min(limit, math.MaxInt64-1)+1))
		size = int64(len(b))
	}
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%w: at most %d bytes are taken", artifacts.ErrTooLarge, limit)
	}
	return b, nil
}

// write replaces the object whose version is oldVersion. If oldVersion is zero, it creates an
// object that does not exist yet. It returns the new version. If the object has another version, or
// already exists, the error is errRefused; if oldVersion is not zero, it may also be ErrNotFound.
func (s *Store) write(ctx context.Context, key artifacts.Key, oldVersion artifacts.Version, data []byte,
) (artifacts.Version, error) {
	opts := minio.PutObjectOptions{
		DisableContentSha256: true, // Chunks are not signed, because the whole body is.
	}
	if oldVersion == "" {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(string(oldVersion))
	}
	sum, md := sha256.Sum256(data), md5.Sum(data) // Buckets with a retention period require Content-MD5.
	var info minio.UploadInfo
	err := s.signed(func() (err error) {
		body := bytes.NewReader(data)
		info, err = s.client.PutObject(ctx, s.bucket, s.prefix+key.String(), body, int64(len(data)),
			base64.StdEncoding.EncodeToString(md[:]), hex.EncodeToString(sum[:]), opts)
		return err
	})
	if err = s.classify(toPut, err); errors.Is(err, artifacts.ErrNotModified) {
		err = fmt.Errorf("%w: %v", errRefused, err) // Some versions of MinIO answer 304 to a refused write.
	}
	if err != nil {
		return "", err
	}
	if info.ETag == "" {
		return "", errors.New("the store sent no ETag")
	}
	return artifacts.Version(info.ETag), nil
}

// Put implements artifacts.Store.
func (s *Store) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	err := ready(ctx, key)
	if err == nil {
		err = s.put(ctx, key, data)
	}
	if err != nil {
		return fmt.Errorf("put %.100s: %w", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key artifacts.Key, data []byte) error {
	// Another process may write or delete the object between the requests. If so, start again. In
	// practice this does not happen three times in a row.
	var err error
	for range 3 {
		if _, err = s.write(ctx, key, "", data); err == nil || !errors.Is(err, errRefused) {
			return err
		}
		have, v, rerr := s.read(ctx, key, "", int64(len(data)))
		other := errors.Is(rerr, artifacts.ErrTooLarge) || rerr == nil && !bytes.Equal(have, data)
		switch {
		case errors.Is(rerr, artifacts.ErrNotFound):
			continue // It was deleted, or is not yet visible.
		case other && key.Names(data): // The stored object is damaged.
		case other:
			return fmt.Errorf("%w: the store holds other bytes under this key", artifacts.ErrConflict)
		case rerr != nil:
			return rerr
		}
		// Some servers accept only one write of a key per second, so starting again would never
		// reach this write.
		err = retry.Do(ctx, retry.Options{Busy: true}, "put", func() error {
			_, err := s.write(ctx, key, v, data)
			return err
		})
		if err == nil || !errors.Is(err, errRefused) && !errors.Is(err, artifacts.ErrNotFound) {
			return err
		}
	}
	// The error says nothing definite about the object, so do not wrap it.
	return fmt.Errorf("the object kept changing: %v", err)
}

// Sync implements artifacts.Store. It does nothing, because a write is durable once S3 has
// acknowledged it.
func (s *Store) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Swap implements artifacts.Store.
func (s *Store) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	err := ready(ctx, key)
	var v artifacts.Version
	if err == nil {
		v, err = s.write(ctx, key, old, data)
	}
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, errRefused):
		err = fmt.Errorf("%w: version is not %q: %w", artifacts.ErrConflict, old, err)
	case errors.Is(err, artifacts.ErrNotFound):
		err = fmt.Errorf("%w: there is no object, not version %q", artifacts.ErrConflict, old)
	}
	return "", fmt.Errorf("swap %.100s: %w", key, err)
}

// List implements artifacts.Store. It skips objects whose names cannot be keys.
func (s *Store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	if err := artifacts.CheckPrefix(prefix); err != nil {
		return fmt.Errorf("list %.100s: %w", prefix, err)
	}
	var stopped error // the error of f
	after := ""       // the last key in the list, after which a repeated request continues
	err := s.signed(func() error {
		for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{
			Prefix: s.prefix + prefix, Recursive: true, FetchOwner: new(bool), StartAfter: after,
		}) {
			if o.Err != nil {
				return o.Err
			}
			if o.LastModified.IsZero() {
				return minio.ErrorResponse{Code: refusal.NoLastModified}
			}
			after = o.Key
			name, ok := strings.CutPrefix(o.Key, s.prefix)
			key, err := artifacts.ParseKey(name)
			if !ok || err != nil {
				continue
			}
			if stopped = f(artifacts.Info{Key: key, Size: o.Size, Modified: o.LastModified}); stopped != nil {
				return nil
			}
		}
		return nil
	})
	switch {
	case stopped != nil:
		return stopped
	case err != nil:
		return fmt.Errorf("list %.100s: %w", prefix, s.classify(toList, err))
	}
	if err := ctx.Err(); err != nil { // The client's iterator ends without an error when ctx is done.
		return fmt.Errorf("list %.100s: %w", prefix, err)
	}
	return nil
}

// Delete implements artifacts.Store.
func (s *Store) Delete(ctx context.Context, key artifacts.Key) error {
	err := ready(ctx, key)
	if err == nil {
		err = s.signed(func() error {
			return s.client.RemoveObject(ctx, s.bucket, s.prefix+key.String(), minio.RemoveObjectOptions{})
		})
	}
	if err == nil {
		return nil
	}
	if err = s.classify(toDelete, err); errors.Is(err, artifacts.ErrNotFound) {
		return nil // Servers other than Amazon's report a missing object.
	}
	return fmt.Errorf("delete %.100s: %w", key, err)
}

// Now implements artifacts.Store. It writes a probe and lists it, because the Date header of an
// answer may come from the clock of a proxy.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	key := artifacts.ProbeKey("clock-" + rand.Text())
	err := ctx.Err()
	if err == nil {
		_, err = s.write(ctx, key, "", nil)
	}
	var now time.Time
	if err == nil {
		err = s.List(ctx, key.String(), func(i artifacts.Info) error {
			now = i.Modified
			return nil
		})
	}
	if err == nil {
		err = s.Delete(ctx, key)
	}
	if err == nil && now.IsZero() {
		err = fmt.Errorf("%s was written but is not listed", key)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("clock: %w", err)
	}
	return now, nil
}

// SelfTest implements artifacts.Store.
func (s *Store) SelfTest(ctx context.Context) error {
	return selftest.Run(ctx, s, selftest.Names{
		Create: "If-None-Match: * of a write", Match: "If-Match of a write", Changed: "If-None-Match of a read",
	})
}
