package artifacts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/marketdata/internal/test/must"
)

var keyTime = time.Date(2026, 11, 21, 7, 30, 0, 0, time.UTC)

func keyEntry(n int) KeyEntry {
	return KeyEntry{
		ID: fmt.Sprintf("id-%d", n), Name: "A client", Hash: Sum(binary.BigEndian.AppendUint64(nil, uint64(n))),
		Rate: 100, Burst: 200, Created: keyTime,
	}
}

// TestKeySetGolden pins the stored form.
func TestKeySetGolden(t *testing.T) {
	a, b := keyEntry(1), keyEntry(2)
	b.Expires, b.Revoked = keyTime.Add(time.Hour), keyTime.Add(time.Minute)
	const want = `{"format":1,"keys":[` +
		`{"id":"id-1","name":"A client","hash":"cd2662154e6d76b2b2b92e70c0cac3ccf534f9b74eb5b89819ec509083d00a50","rate":100,"burst":200,"created":"2026-11-21T07:30:00Z"},` +
		`{"id":"id-2","name":"A client","hash":"cd04a4754498e06db5a13c5f371f1f04ff6d2470f24aa9bd886540e5dce77f70","rate":100,"burst":200,"created":"2026-11-21T07:30:00Z",` +
		`"expires":"2026-11-21T08:30:00Z","revoked":"2026-11-21T07:31:00Z"}],"sum":"677687e45d427fe0454f64fb501994696f72202f4bddcc1d3726126d52f98110"}` + "\n"
	if got := (&KeySet{Format: Format, Keys: []KeyEntry{a, b}}).Encode(); string(got) != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if got, want := string((&KeySet{Format: Format}).Encode()),
		`{"format":1,"keys":[],"sum":"6a56e8e8bfde35ff07617ec290f80162f2ce4a91177c6069b8b5bb8952140efc"}`+"\n"; got != want {
		t.Errorf("empty set: got %s, want %s", got, want)
	}
}

func TestParseKeySetTakes(t *testing.T) {
	const hash = `"cd2662154e6d76b2b2b92e70c0cac3ccf534f9b74eb5b89819ec509083d00a50"`
	got, err := ParseKeySet(withSum(`{"format":1,"signature":"x","keys":[{"id":"a","name":"n","hash":` + hash +
		`,"rate":1,"burst":1000000,"scopes":[1],"created":"2026-11-21T09:30:00.9+02:00","expires":null,"revoked":null}]}`))
	must.OK(t, err)
	k := got.Keys[0]
	if !k.Created.Equal(keyTime) || k.Created.Location() != time.UTC || !k.Expires.IsZero() || !k.Revoked.IsZero() ||
		k.Burst != 1_000_000 || k.Query {
		t.Errorf("got %+v", k)
	}
	got.Keys[0].Query = true
	if again := must.Get(ParseKeySet(got.Encode()))(t); !again.Keys[0].Query {
		t.Errorf("a key for the query is %+v when read again", again.Keys[0])
	}
}

// withoutSum returns a cell without its checksum, so that a test can modify it.
func withoutSum(b []byte) string { return string(b[:len(b)-sumLength-1]) + "}\n" }

// withSum adds a checksum to s if s ends like a JSON object.
func withSum(s string) []byte {
	if trimmed, ok := strings.CutSuffix(strings.TrimSpace(s), "}"); ok {
		return addSum([]byte(trimmed + "}"))
	}
	return []byte(s)
}

func TestParseKeySetRefuses(t *testing.T) {
	good := withoutSum((&KeySet{Format: Format, Keys: []KeyEntry{keyEntry(1), keyEntry(2)}}).Encode())
	hash1, hash2 := keyEntry(1).Hash.String(), keyEntry(2).Hash.String()
	for _, c := range []struct {
		name, from, to string
		want           error
		text           string
	}{
		{"newer format", `"format":1`, `"format":2`, ErrFormat, "format 2"},
		{"no format", `"format":1`, `"form":1`, ErrFormat, "format 0"},
		{"no keys", `"keys":`, `"key":`, ErrCorrupt, "keys is missing"},
		{"keys null", good[strings.Index(good, "[") : strings.Index(good, "]")+1], `null`, ErrCorrupt,
			"keys is missing"},
		{"not JSON", `]}`, `]`, ErrCorrupt, "unexpected end"},
		{"trailing bytes", `]}`, `]} x`, ErrCorrupt, "after top-level value"},
		{"not UTF-8", `A client`, "A \xff client", ErrCorrupt, "not UTF-8"},
		{"same id", `"id-2"`, `"id-1"`, ErrCorrupt, "twice"},
		{"same hash", hash2, hash1, ErrCorrupt, "twice"},
		{"empty id", `"id-2"`, `""`, ErrCorrupt, `entry 1: id ""`},
		{"long id", `"id-2"`, `"` + strings.Repeat("a", 65) + `"`, ErrCorrupt, "1 to 64"},
		{"id with a space", `"id-2"`, `"i d"`, ErrCorrupt, `id "i d"`},
		{"upper-case hash", hash1, strings.ToUpper(hash1), ErrCorrupt, "lower-case"},
		{"short hash", hash1, hash1[1:], ErrCorrupt, "64 hexadecimal digits"},
		{"zero hash", hash1, strings.Repeat("0", 64), ErrCorrupt, "hash is missing"},
		{"no hash", `"hash"`, `"h"`, ErrCorrupt, "hash is missing"},
		{"no name", `"name":"A client"`, `"name":""`, ErrCorrupt, "1 to 100 characters, got 0"},
		{"long name", `A client`, strings.Repeat("é", 101), ErrCorrupt, "got 101"},
		{"control character in the name", `A client`, `A\u0007client`, ErrCorrupt, "U+0007"},
		{"C1 control character in the name", `A client`, `A\u0085client`, ErrCorrupt, "U+0085"},
		{"rate zero", `"rate":100`, `"rate":0`, ErrCorrupt, "rate 0"},
		{"rate negative", `"rate":100`, `"rate":-1`, ErrCorrupt, "rate -1"},
		{"rate too high", `"rate":100`, `"rate":1000001`, ErrCorrupt, "1 to 1000000"},
		{"rate with decimals", `"rate":100`, `"rate":1.5`, ErrCorrupt, "1.5"},
		{"burst zero", `"burst":200`, `"burst":0`, ErrCorrupt, "burst 0"},
		{"burst too high", `"burst":200`, `"burst":1000001`, ErrCorrupt, "1 to 1000000"},
		{"no created", `"created"`, `"made"`, ErrCorrupt, "created is missing"},
		{"created no time", `2026-11-21T07:30:00Z`, `yesterday`, ErrCorrupt, "yesterday"},
		{"year out of range", `"created":"2026-11-21T07:30:00Z"`,
			`"created":"2026-11-21T07:30:00Z","expires":"9999-12-31T23:59:59-01:00"`, ErrCorrupt,
			"expires: year 10000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(good, c.from, c.to, 1)
			if bad == good {
				t.Fatalf("%q is not in %s", c.from, good)
			}
			_, err := ParseKeySet(withSum(bad))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

func TestKeySetBounds(t *testing.T) {
	// U+2028 is the character with the longest encoding in encoding/json.
	full := &KeySet{Format: Format, Keys: make([]KeyEntry, MaxKeys)}
	for i := range full.Keys {
		k := keyEntry(i)
		k.ID = fmt.Sprintf("%0*d", maxKeyID, i)
		k.Name = strings.Repeat("\u2028", MaxKeyName)
		k.Rate, k.Burst = MaxKeyRate, MaxKeyBurst
		k.Expires, k.Revoked = keyTime, keyTime
		full.Keys[i] = k
	}
	b := full.Encode()
	if len(b) > MaxKeySetSize {
		t.Fatalf("a full key set has %d bytes, MaxKeySetSize is %d", len(b), MaxKeySetSize)
	}
	if got, err := ParseKeySet(b); err != nil || len(got.Keys) != MaxKeys {
		t.Fatalf("a full key set: %v", err)
	}
	more := `{"format":1,"keys":[{}` + strings.Repeat(",{}", MaxKeys) + `]}`
	if _, err := ParseKeySet(withSum(more)); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), "20001 keys") {
		t.Errorf("one entry more: got %v, want ErrCorrupt with their number", err)
	}
	if _, err := ParseKeySet(make([]byte, MaxKeySetSize+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too long: got %v, want ErrTooLarge", err)
	}
}

// TestKeyGolden pins the text of keys. The checksums were computed independently, with Python's
// zlib.crc32.
func TestKeyGolden(t *testing.T) {
	for _, c := range []struct {
		random []byte
		want   string
	}{
		{make([]byte, 66), "mdk_live_00000000000000000000000000000000030FWbq"},
		{sequence(0), "mdk_live_0123456789ABCDEFGHIJKLMNOPQRSTUVW0YE78Z"},
		{sequence(240), "mdk_live_stuvwxyz0123456789ABCDEFGHIJKLMNO2uOjDx"}, // 248 to 255 are skipped
	} {
		got, err := NewKey(bytes.NewReader(c.random))
		if err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
		if !CheckKeyText([]byte(c.want)) {
			t.Errorf("CheckKeyText(%s) = false", c.want)
		}
	}
	const hash = "ec26729d7fd9adcaa5649f8dbb8d651b28f021afaddcaac5bf367147b25bd535"
	if got := HashKey([]byte("mdk_live_00000000000000000000000000000000030FWbq")).String(); got != hash {
		t.Errorf("HashKey = %s, want %s", got, hash)
	}
}

func sequence(from byte) []byte {
	b := make([]byte, 66)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

func TestNewKeyEven(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	const keys = 20_000
	var count [256]int
	seen := map[string]bool{}
	for range keys {
		key := must.Get(NewKey(random))(t)
		if seen[key] || !CheckKeyText([]byte(key)) {
			t.Fatalf("key %s: twice, or its text is refused", key)
		}
		seen[key] = true
		for _, c := range []byte(key[len(KeyPrefix) : len(KeyPrefix)+keyRandom]) {
			count[c]++
		}
	}
	// Each of the 62 characters is expected 10,645 times, with a standard deviation of 102. Without
	// the rejection, eight of them would occur 12,900 times.
	const want = keys * keyRandom / 62
	for _, c := range []byte(base62) {
		if count[c] < want-600 || count[c] > want+600 {
			t.Errorf("character %c came %d times, want about %d", c, count[c], want)
		}
	}
}

func TestNewKeyBrokenSource(t *testing.T) {
	fault := errors.New("fault")
	if _, err := NewKey(iotest.ErrReader(fault)); !errors.Is(err, fault) {
		t.Errorf("failing source: got %v", err)
	}
	if _, err := NewKey(bytes.NewReader(make([]byte, 10))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short source: got %v", err)
	}
	if _, err := NewKey(ones{}); err == nil || !strings.Contains(err.Error(), "does not give random bytes") {
		t.Errorf("source of ones only: got %v", err)
	}
}

type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 0xff
	}
	return len(b), nil
}

func TestCheckKeyText(t *testing.T) {
	good := must.Get(NewKey(rand.NewChaCha8([32]byte{2})))(t)
	// Try every other byte at every position: CRC-32 detects any change within 32 bits.
	for i := range len(good) {
		for c := range 256 {
			b := []byte(good)
			b[i] = byte(c)
			if got, want := CheckKeyText(b), string(b) == good; got != want {
				t.Fatalf("%q: got %v", b, got)
			}
		}
	}
	// Swap two neighboring characters, as people do by mistake.
	for i := len(KeyPrefix); i < len(good)-1; i++ {
		b := []byte(good)
		b[i], b[i+1] = b[i+1], b[i]
		if CheckKeyText(b) && string(b) != good {
			t.Errorf("%s: taken", b)
		}
	}
	for _, bad := range []string{
		"", "mdk_live_", good[1:], good[:len(good)-1], good + "0", " " + good, good + " ", good + "\x00",
		strings.Replace(good, "live", "test", 1), strings.ToUpper(good), "mdk_live_" + strings.Repeat("z", 39),
	} {
		if CheckKeyText([]byte(bad)) {
			t.Errorf("%q: taken", bad)
		}
	}
}

func FuzzParseKeySet(f *testing.F) {
	a, b := keyEntry(1), keyEntry(2)
	a.Name = `Größe & "Söhne" <株式会社>`
	b.Expires, b.Revoked = keyTime.Add(time.Hour), keyTime
	f.Add((&KeySet{Format: Format}).Encode())
	f.Add((&KeySet{Format: Format, Keys: []KeyEntry{a, b}}).Encode())
	f.Add([]byte(`{"format":1,"keys":[{"id":"a","name":"\ud800","hash":"` + a.Hash.String() +
		`","rate":1e2,"burst":1,"created":"9999-12-31T23:59:59-23:59"}]}`))
	f.Add([]byte(`{"format":1,"keys":null}`))
	f.Add([]byte(`{"format":2,"keys":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseKeySet(data)
		if err != nil {
			if s != nil {
				t.Fatal("a set and an error")
			}
			return
		}
		again, err := ParseKeySet(s.Encode())
		if err != nil {
			t.Fatalf("%s: own form refused: %v", data, err)
		}
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("%s: %+v became %+v", data, s, again)
		}
	})
}

func FuzzCheckKeyText(f *testing.F) {
	f.Add([]byte("mdk_live_000000000000000000000000000000000000000"))
	f.Add([]byte("mdk_live_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !CheckKeyText(data) {
			return
		}
		// An accepted key equals the one that NewKey makes from the same random characters.
		random := make([]byte, 66)
		for i := range keyRandom {
			random[i] = byte(digit62(data[len(KeyPrefix)+i]))
		}
		if want, err := NewKey(bytes.NewReader(random)); err != nil || string(data) != want {
			t.Fatalf("%q is taken, but the key is %q, %v", data, want, err)
		}
	})
}
