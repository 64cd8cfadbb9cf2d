package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/marketdata/artifacts"
	marketdata "example.com/marketdata/edge/openapi/clients/go"
	"github.com/klauspost/compress/zstd"
)

const (
	quotesFile = "quotes.ndjson.zst"
	maxFile    = 32 << 20 // the largest size of the file in bytes, enough for the quotes of about 300,000 assets
	maxRow     = 64 << 10
)

// proof contains data that an operator's signature covers.
type proof struct {
	Row    string `json:"row" jsonschema:"The row as it was published, byte for byte: JSON as /quotes has it, with the rank."`
	File   string `json:"file" jsonschema:"The file that has the row."`
	SHA256 string `json:"sha256" jsonschema:"The digest of the file, which the signed list names."`
}

// verifyProof reads an asset's row from a snapshot's files, whose list a trusted key has signed.
func (s *service) verifyProof(ctx context.Context, in struct {
	ID int64 `json:"id" jsonschema:"Id of the asset."`
	pinned
}) (*answer[proof], error) {
	if len(s.trust) == 0 {
		return nil, errors.New("no key is trusted, so nothing can be proved: the user must ask the operator for the key, mdtrust_…, and start this server with MARKETDATA_TRUST_KEY")
	}
	at := in.at()
	if at.IsZero() {
		newest, err := s.client.Files(ctx)
		if err != nil {
			return nil, err
		}
		if newest.Result.Time == nil {
			return nil, errors.New("the service publishes no files, so nothing can be proved through it. The operator can make a proof with builder prove")
		}
		at = *newest.Result.Time
	}
	list, err := s.fetch(ctx, at, artifacts.FilesJSON, artifacts.MaxFileList)
	if err != nil {
		return nil, err
	}
	file, err := s.fetch(ctx, at, quotesFile, maxFile)
	if err != nil {
		return nil, err
	}
	digest := artifacts.Digest(sha256.Sum256(file))
	of, err := artifacts.VerifyFile(list, s.trust, quotesFile, digest, int64(len(file)))
	if err != nil || !of.Equal(at) {
		return nil, fmt.Errorf("NOT proved: what the service sent is not what a trusted key has signed for %s (%w). Tell the user not to rely on it",
			stamp(at), cmp.Or(err, errors.New("it is of another time")))
	}
	row, err := find(file, in.ID)
	if err != nil {
		return nil, err
	}
	return &answer[proof]{Snapshot: stamp(at), Items: []proof{{row, quotesFile, digest.String()}}, Remarks: []string{
		"Proved: a trusted key has signed the list of the files of this snapshot, the list names the digest of the file, and the file has the row."}}, nil
}

// find returns an asset's row from a quotes file.
func find(file []byte, id int64) (string, error) {
	text, err := zstd.NewReader(bytes.NewReader(file), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return "", err
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxRow)
	for begin := fmt.Appendf(nil, `{"id":%d,`, id); lines.Scan(); {
		if bytes.HasPrefix(lines.Bytes(), begin) {
			return lines.Text(), nil
		}
	}
	return "", cmp.Or(lines.Err(), fmt.Errorf("the signed file shows that no asset with id %d had a price in that snapshot", id))
}

// fetch returns a file of a snapshot. It does not use the client, which downloads only files whose digest
// it knows.
func (s *service) fetch(ctx context.Context, at time.Time, name string, most int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		s.base+"/at/"+at.UTC().Format("20060102T150405Z")+"/openapi/v1/files/"+name, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Api-Key", s.key)
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirect, which could send the key to another server
	if err != nil {
		return nil, &marketdata.TransportError{Err: err}
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone {
		return nil, &marketdata.APIError{Status: http.StatusGone,
			Message: "the snapshot of " + stamp(at) + " has no files here"}
	}
	if res.StatusCode != http.StatusOK {
		return nil, &marketdata.APIError{Status: res.StatusCode, Message: "no files of " + stamp(at)}
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return nil, &marketdata.TransportError{Err: err}
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes: verify it with builder verify --file", name, most)
	}
	return b, nil
}
