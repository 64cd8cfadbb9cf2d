package marketdata

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Files lists the files of a snapshot.
type Files struct {
	Time  *time.Time // of the snapshot; nil if there are no files
	Items []File
}

// File is a file that contains a whole collection.
type File struct {
	Name      string // such as quotes.parquet
	Bytes     int64
	Rows      int64
	SHA256    string
	MediaType string `json:"media_type"`
	URL       string // its path; the file at this path never changes
}

// Files lists the newest files. Use Download to fetch one of them.
func (c *Client) Files(ctx context.Context) (*Answer[Files], error) {
	return get[Files](ctx, c, "files", GlobalQuery{})
}

// Download writes a file to path, unless it already exists there. Until the whole file has arrived
// and matches its digest, the data is in path.part. An interrupted download resumes from that file,
// within this call or in a later one.
func (c *Client) Download(ctx context.Context, f File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if have, err := os.Open(path); err == nil {
		sum := sha256.New()
		n, err := io.Copy(sum, have)
		if have.Close(); err == nil && whole(f, n, sum) == nil {
			return nil
		}
	}
	part, err := os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer part.Close()
	sum := sha256.New()
	at, err := io.Copy(sum, part)
	for attempt := 0; err == nil && at < f.Bytes; attempt++ {
		n, broken := c.receive(ctx, f, at, io.MultiWriter(part, sum))
		if at += n; n > 0 {
			attempt = 0
		}
		if broken != nil {
			err = c.pause(ctx, attempt, broken)
		}
	}
	if err != nil {
		return err
	}
	if err := whole(f, at, sum); err != nil {
		return errors.Join(err, part.Truncate(0))
	}
	if err := part.Sync(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

func whole(f File, n int64, sum hash.Hash) error {
	if got := hex.EncodeToString(sum.Sum(nil)); n != f.Bytes || got != f.SHA256 {
		return fmt.Errorf("marketdata: %s has %d bytes with digest %s, want %d with %s", f.Name, n, got, f.Bytes,
			f.SHA256)
	}
	return nil
}

// receive writes the part of a file from offset "at" on, and returns the number of bytes written.
// It gives up if nothing arrives for the duration of one attempt's timeout.
func (c *Client) receive(ctx context.Context, f File, at int64, to io.Writer) (n int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(c.timeout, cancel)
	defer timer.Stop()
	header := http.Header{}
	if at > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", at))
		header.Set("If-Match", `"`+f.SHA256+`"`) // the file's tag, so that bytes of another file are never appended
	}
	res, err := c.send(ctx, f.URL, header)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	switch {
	case at == 0 && res.StatusCode == http.StatusOK, at > 0 && res.StatusCode == http.StatusPartialContent:
	case res.StatusCode < 300:
		return 0, &TransportError{fmt.Errorf("status %d in place of a part of the file", res.StatusCode)}
	default:
		_, err := read(res)
		return 0, err
	}
	buffer := make([]byte, 64<<10)
	for {
		k, err := io.LimitReader(res.Body, f.Bytes-at-n).Read(buffer)
		timer.Reset(c.timeout)
		if k > 0 {
			if _, err := to.Write(buffer[:k]); err != nil {
				return n, err
			}
			n += int64(k)
		}
		if at+n == f.Bytes {
			return n, nil
		}
		if err != nil {
			return n, &TransportError{fmt.Errorf("%s: %w", f.Name, err)}
		}
	}
}
