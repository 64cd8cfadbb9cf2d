package artifacts

import (
	"bytes"
	"crypto/rand"
	"errors"
	"reflect"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

func testPointer() *Pointer {
	at := time.Date(2026, 3, 4, 5, 10, 0, 0, time.UTC)
	return &Pointer{
		Format: Format, Store: "0123456789abcdef0123456789abcdef", Sequence: 7, Time: at,
		Manifest: Ref{Sum([]byte("m")), 99}, Nonce: "n", Published: at,
	}
}

func newTestKey(t *testing.T) SignKey {
	t.Helper()
	return must.Get(NewSignKey(rand.Reader))(t)
}

func TestSignedObjectParsesAndVerifies(t *testing.T) {
	a, b := newTestKey(t), newTestKey(t)
	p := testPointer()
	raw := Sign(CurrentKey, p.Encode(), a, b)
	got, err := ParsePointer(raw)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, trust := range []Trust{{a.Trust()}, {b.Trust()}, {newTestKey(t).Trust(), b.Trust()}} {
		must.OK(t, trust.Verify(CurrentKey, raw))
	}
	for name, err := range map[string]error{
		"another key":    Trust{newTestKey(t).Trust()}.Verify(CurrentKey, raw),
		"no key":         Trust{}.Verify(CurrentKey, raw),
		"another object": Trust{a.Trust()}.Verify(ChangeKey, raw),
		"unsigned":       Trust{a.Trust()}.Verify(CurrentKey, p.Encode()),
		"empty":          Trust{a.Trust()}.Verify(CurrentKey, nil),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v, want ErrSignature", name, err)
		}
	}
}

// TestForgedPointer flips every bit of a signed pointer. The result either fails to verify or still
// means the same, because the bit is in white space, or in a signature next to which another key's
// is valid.
func TestForgedPointer(t *testing.T) {
	k := newTestKey(t)
	p := testPointer()
	raw := Sign(CurrentKey, p.Encode(), k)
	for i := range raw {
		for bit := range 8 {
			forged := bytes.Clone(raw)
			forged[i] ^= 1 << bit
			if (Trust{k.Trust()}).Verify(CurrentKey, forged) != nil {
				continue
			}
			if got, err := ParsePointer(forged); err != nil || !reflect.DeepEqual(got, p) {
				t.Fatalf("byte %d bit %d: verifies and says %+v, %v", i, bit, got, err)
			}
		}
	}
}

func TestKeyTexts(t *testing.T) {
	k := newTestKey(t)
	again, err := ParseSignKey(" " + k.Text() + "\n")
	if err != nil || again.Text() != k.Text() {
		t.Fatal(err)
	}
	trust, err := ParseTrustKey(k.Trust().Text())
	if err != nil || trust.ID() != k.Trust().ID() || len(trust.ID()) != 16 {
		t.Fatalf("%v, id %q", err, trust.ID())
	}
	for _, text := range []string{"", "x", k.Text(), trust.Text()[:20], trust.Text() + "AA", trustKeyPrefix + "!!!!"} {
		if _, err := ParseTrustKey(text); err == nil {
			t.Errorf("trust key %q is taken", text)
		}
	}
	if _, err := ParseSignKey(trust.Text()); err == nil || bytes.Contains([]byte(err.Error()), []byte(trust.Text())) {
		t.Errorf("a trust key as a sign key: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	k := must.Get(NewSignKey(bytes.NewReader(make([]byte, 64))))(f)
	signed := Sign(CurrentKey, testPointer().Encode(), k)
	f.Add(signed)
	f.Add([]byte(signatureStart))
	f.Fuzz(func(t *testing.T, b []byte) {
		if (Trust{k.Trust()}).Verify(CurrentKey, b) == nil {
			got, err := ParsePointer(b)
			if err != nil || !reflect.DeepEqual(got, testPointer()) {
				t.Fatalf("verifies and says %+v, %v", got, err)
			}
		}
	})
}
