package server

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxBody bounds the body of a request, which is read and ignored; maxTrailer
	// its trailer section, and its chunk extensions together
	// (INTERFACE.md, "Framing").
	maxBody    = 4 << 10
	maxTrailer = 4 << 10
	// maxChunkDigits is more than any length of up to maxBody needs.
	maxChunkDigits = 16
)

// skipChunks reads past a chunked body (RFC 9112, section 7.1).
func skipChunks(in *bufio.Reader) error {
	body, extensions := uint64(0), 0
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte{';'})
		extensions += len(line) - len(digits)
		size, err := strconv.ParseUint(string(digits), 16, 63)
		if err != nil || len(digits) > maxChunkDigits || extensions > maxTrailer {
			return errFraming
		}
		if size == 0 {
			return skipTrailer(in)
		}
		if body += size; body > maxBody {
			return errBodyTooLarge
		}
		if _, err := in.Discard(int(size)); err != nil {
			return err
		}
		if line, err = readLine(in); err != nil {
			return err
		}
		if len(line) > 0 {
			return errFraming
		}
	}
}

// skipTrailer reads past a trailer section.
func skipTrailer(in *bufio.Reader) error {
	for n := 0; ; {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		if n += len(line) + len(crlf); n > maxTrailer {
			return errFraming
		}
		if len(line) == 0 {
			return nil
		}
		name, _, ok := bytes.Cut(line, []byte{':'})
		if !ok || !httpguts.ValidHeaderFieldName(string(name)) {
			return errFraming
		}
	}
}

// readLine reads a line that ends in CR LF, without control characters but the tab,
// and returns it without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errFraming
	}
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSuffix(line, crlf)
	if !httpguts.ValidHeaderFieldValue(string(line)) { // nor is a lone LF
		return nil, errFraming
	}
	return line, nil
}
