package ledger

import (
	"encoding/base64"
	"reflect"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
)

func TestHistoryLayout(t *testing.T) {
	part := artifacts.Ref{Digest: artifacts.Sum(nil), Size: 300}
	list := priceList{
		{Time: time.Date(1970, 1, 1, 1, 0, 0, 0, time.UTC), Parts: []artifacts.Ref{part}},
		{Time: time.Date(1970, 1, 1, 1, 10, 0, 0, time.UTC)},
	}
	want := append([]byte{12, 1}, part.Digest[:]...) // 6 steps; one part
	want = append(want, 0xac, 0x02)                  // the part has 300 bytes
	want = append(want, 2, 0)                        // 1 step later; no part
	text, err := list.MarshalText()
	if err != nil || string(text) != base64.StdEncoding.EncodeToString(want) {
		t.Errorf("%s (%v), want %x in base64", text, err, want)
	}
}

func TestHistoryRefuses(t *testing.T) {
	digest := string(make([]byte, 32))
	for _, test := range []struct{ name, plain string }{
		{"a time that does not ascend", "\x02\x00\x00\x00"},
		{"a time that goes back", "\x02\x00\x01\x00"},
		{"a time far away", "\xff\xff\xff\xff\xff\xff\x01\x00"},
		{"no parts", "\x02"},
		{"more parts than there are bytes", "\x02\x7f"},
		{"half a digest", "\x02\x01" + digest[:16]},
		{"a part without a size", "\x02\x01" + digest},
		{"a part that is too large", "\x02\x01" + digest + "\x81\x80\x80\x08"},
	} {
		var l priceList
		if err := l.UnmarshalText([]byte(base64.StdEncoding.EncodeToString([]byte(test.plain)))); err == nil {
			t.Errorf("%s: read as %v", test.name, l)
		}
	}
	var l priceList
	if err := l.UnmarshalText([]byte("no base64!")); err == nil {
		t.Errorf("bytes that are no base64 read as %v", l)
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{})
	f.Add(append([]byte{12, 1}, make([]byte, 33)...))
	f.Add([]byte{2, 0, 2, 0, 2, 0})
	f.Fuzz(func(t *testing.T, plain []byte) {
		var l, again priceList
		if l.UnmarshalText([]byte(base64.StdEncoding.EncodeToString(plain))) != nil {
			return
		}
		text, err := l.MarshalText()
		ok(t, err)
		if err := again.UnmarshalText(text); err != nil || !reflect.DeepEqual(l, again) {
			t.Fatalf("%x reads as %v, again as %v (%v)", plain, l, again, err)
		}
	})
}
