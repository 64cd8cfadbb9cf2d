package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"slices"
	"strings"

	"example.com/marketdata/loadtest/result"
	"example.com/marketdata/loadtest/traffic"
	"golang.org/x/net/http/httpguts"
)

// maxKeysFile bounds the size of a keys file, in bytes.
const maxKeysFile = 16 << 20

// readKeys reads a file that contains one key per line, or the JSON objects that `builder keys create --json`
// prints. Errors do not quote the contents, because keys are secret.
func readKeys(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeysFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxKeysFile:
		return nil, fmt.Errorf("%s: over %d bytes", name, maxKeysFile)
	}
	const want = "want a key in each line, or what builder keys create --json prints"
	var keys []string
	type object struct{ Key string }
	if b = bytes.TrimSpace(b); bytes.HasPrefix(b, []byte("{")) || bytes.HasPrefix(b, []byte("[")) {
		for d := json.NewDecoder(bytes.NewReader(b)); ; {
			var raw json.RawMessage
			if err := d.Decode(&raw); errors.Is(err, io.EOF) {
				return keys, nil
			} else if err != nil {
				return nil, fmt.Errorf("%s: no JSON; %s", name, want)
			}
			objects := make([]object, 1)
			if json.Unmarshal(raw, &objects[0]) != nil && json.Unmarshal(raw, &objects) != nil ||
				slices.Contains(objects, object{}) {
				return nil, fmt.Errorf("%s: JSON without keys; %s", name, want)
			}
			for _, o := range objects {
				keys = append(keys, o.Key)
			}
		}
	}
	n := 0
	for line := range strings.SplitSeq(string(b), "\n") {
		n++
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case strings.ContainsAny(line, " \t,\"") || !httpguts.ValidHeaderFieldValue(line):
			return nil, fmt.Errorf("%s: line %d is not a key; %s", name, n, want)
		default:
			keys = append(keys, line)
		}
	}
	if keys == nil {
		return nil, fmt.Errorf("%s: no key; %s", name, want)
	}
	return keys, nil
}

// keys returns the keys of the options and of their keys file.
func (o *Options) keys() ([]string, error) {
	var keys []string
	for i, key := range o.Keys {
		key = strings.TrimSpace(key)
		if key == "" || !httpguts.ValidHeaderFieldValue(key) {
			return nil, fmt.Errorf("key %d of %d is empty or has characters that a header may not have", i+1, len(o.Keys))
		}
		keys = append(keys, key)
	}
	if o.KeysFile == "" {
		return keys, nil
	}
	more, err := readKeys(o.KeysFile)
	if err != nil {
		return nil, fmt.Errorf("--keys-file: %w", err)
	}
	return append(keys, more...), nil
}

// reserved contains the header fields that Options.Headers must not contain, with the reasons.
var reserved = func() map[string]string {
	all := map[string]string{"X-Api-Key": "keys go to --key or --keys-file"}
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade",
		"Te", "Trailer", "Expect"} {
		all[name] = "the load tester frames requests itself"
	}
	for _, name := range []string{"Accept-Encoding", "X-Request-Id", "X-Snapshot-Time", "If-None-Match", "If-Match",
		"If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range", "Last-Event-Id"} {
		all[name] = "it decides which answer is right; a scenario or a file of --targets may set it"
	}
	return all
}()

// header returns the header fields of the options by canonical name, each in the form "Name: value".
func (o *Options) header() (map[string]string, error) {
	fields := map[string]string{"User-Agent": "User-Agent: loadtest"}
	given := map[string]bool{}
	for _, h := range o.Headers {
		name, value, ok := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %.80q: want 'Name: value' in printable characters", h)
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if why := reserved[key]; why != "" {
			return nil, fmt.Errorf("header %s cannot be set: %s", name, why)
		}
		if given[key] {
			return nil, fmt.Errorf("header %s is given twice", name)
		}
		fields[key], given[key] = name+": "+value, true
	}
	return fields, nil
}

// checkClasses returns an error if a threshold names a class that the traffic does not have. Otherwise the
// threshold would fail only at the end of the run.
func (t *Tester) checkClasses(thresholds []*result.Assertion) error {
	for _, a := range thresholds {
		if a.Class() == "" {
			continue
		}
		var classes []string
		if t.targets != nil {
			classes = traffic.NewTargets(t.targets, nil, nil).Classes()
		} else {
			classes = t.scenario.Classes()
		}
		if !slices.Contains(classes, a.Class()) {
			return fmt.Errorf("threshold %q: the traffic has no class %q: %s", a, a.Class(),
				traffic.WantOne(a.Class(), classes))
		}
	}
	return nil
}
