package artifacts

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.com/marketdata/internal/redact"
	"golang.org/x/mod/sumdb/note"
)

// ErrSignature: an object is not signed by any key that is trusted.
var ErrSignature = errors.New("signature")

// The texts of keys begin so, to tell which half is which.
const (
	signKeyPrefix  = "mdsign_"
	trustKeyPrefix = "mdtrust_"
)

// SignKey is the private half of an Ed25519 pair: with it a builder signs the
// small objects that edges read.
type SignKey struct{ key ed25519.PrivateKey }

// TrustKey is the public half, which an edge is given.
type TrustKey struct{ key ed25519.PublicKey }

// NewSignKey makes a pair from random bytes.
func NewSignKey(random io.Reader) (SignKey, error) {
	_, key, err := ed25519.GenerateKey(random)
	return SignKey{key}, err
}

// ParseSignKey reads what SignKey.Text writes, white space at its ends aside.
func ParseSignKey(text string) (SignKey, error) {
	seed, err := parseKeyText(text, signKeyPrefix, ed25519.SeedSize)
	if err != nil {
		return SignKey{}, fmt.Errorf("sign key: %w", err)
	}
	return SignKey{ed25519.NewKeyFromSeed(seed)}, nil
}

// ParseTrustKey reads what TrustKey.Text writes, white space at its ends aside.
func ParseTrustKey(text string) (TrustKey, error) {
	key, err := parseKeyText(text, trustKeyPrefix, ed25519.PublicKeySize)
	if err != nil {
		return TrustKey{}, fmt.Errorf("trust key: %w", err)
	}
	return TrustKey{key}, nil
}

// parseKeyText never shows the text in its errors.
func parseKeyText(text, prefix string, size int) ([]byte, error) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), prefix)
	if !ok {
		return nil, fmt.Errorf("want one that begins with %s, as builder keygen prints it", prefix)
	}
	b, err := base64.RawURLEncoding.DecodeString(digits)
	if err != nil || len(b) != size {
		return nil, fmt.Errorf("it is damaged: want %d bytes in base64 behind %s", size, prefix)
	}
	return b, nil
}

// Text returns the key in the form that is kept in a file. It is a secret.
func (k SignKey) Text() string {
	return signKeyPrefix + base64.RawURLEncoding.EncodeToString(k.key.Seed())
}

// Trust returns the public half.
func (k SignKey) Trust() TrustKey { return TrustKey{k.key.Public().(ed25519.PublicKey)} }

// Text returns the key in the form that edges are given.
func (k TrustKey) Text() string { return trustKeyPrefix + base64.RawURLEncoding.EncodeToString(k.key) }

// ID returns the key's short name: 16 hexadecimal digits.
func (k TrustKey) ID() string {
	d := sha256.Sum256(k.key)
	return hex.EncodeToString(d[:8])
}

// signature is one entry of the line of signatures.
type signature struct {
	Key     string `json:"key"`
	Ed25519 []byte `json:"ed25519"`
}

type signatureLine struct {
	Signatures []signature `json:"signatures"`
}

// signatureStart is how the line of signatures begins: no field of that name is
// in any of the objects.
const signatureStart = `{"signatures":[`

// Sign returns the stored form of a small object that is signed: its encoding, one line, and a line
// with one signature by each key. What is signed is the object's key in the store and its encoding,
// so that one of the objects cannot be passed off as another. Without keys it returns body. A
// checkpoint becomes a signed note, which nothing else that is signed begins like.
func Sign(key Key, body []byte, keys ...SignKey) []byte {
	if len(keys) == 0 {
		return body
	}
	if key == CheckpointKey {
		return signNote(body, keys)
	}
	var line signatureLine
	for _, k := range keys {
		line.Signatures = append(
			line.Signatures, signature{k.Trust().ID(), ed25519.Sign(k.key, signedMessage(key, body))})
	}
	b, err := json.Marshal(line)
	if err != nil {
		panic("BUG: signatures: " + err.Error())
	}
	return append(append(bytes.Clone(body), b...), '\n')
}

func signedMessage(key Key, body []byte) []byte {
	return append([]byte("marketdata "+key.String()+"\n"), body...)
}

// Unsigned returns a small object without its line of signatures.
func Unsigned(b []byte) []byte {
	body, _ := splitSigned(b)
	return body
}

// splitSigned returns a small object's encoding, and its line of signatures,
// nil when there is none; of a note, which is no JSON object, its text and its signatures.
func splitSigned(b []byte) (body, line []byte) {
	if !bytes.HasPrefix(b, []byte{'{'}) {
		if i := bytes.LastIndex(b, []byte(noteSignatures)); i >= 0 {
			return b[:i+1], b[i+2:]
		}
	}
	if i := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte{'\n'}), '\n') + 1; i > 0 &&
		bytes.HasPrefix(b[i:], []byte(signatureStart)) {
		return b[:i], b[i:]
	}
	return b, nil
}

// SignedBy returns whether a small object has a line of signatures, and the ids
// of the keys that stand in it; of a note those of its form. It verifies nothing.
func SignedBy(b []byte) (ids []string, signed bool) {
	_, line := splitSigned(b)
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(b, nil); errors.As(err, &unverified) {
		for _, sig := range unverified.Note.UnverifiedSigs {
			ids = append(ids, fmt.Sprintf("%08x", sig.Hash))
		}
		return ids, true
	}
	var s signatureLine
	if json.Unmarshal(line, &s) == nil {
		for _, sig := range s.Signatures {
			ids = append(ids, fmt.Sprintf("%.16q", sig.Key))
		}
	}
	return ids, line != nil
}

// Trust is the keys that an edge believes; any one of them suffices, so that a
// new key can be brought in before the old one goes.
type Trust []TrustKey

// Verify returns nil when the small object b under the given store key is
// signed by a key of t, and else an error that wraps ErrSignature.
func (t Trust) Verify(key Key, b []byte) error {
	if key == CheckpointKey {
		return t.verifyNote(b)
	}
	body, line := splitSigned(b)
	if line == nil {
		return fmt.Errorf(
			"%w: %s is not signed, and only what is signed is trusted: use builder sign, or give no key", ErrSignature, key)
	}
	var s signatureLine
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSignature, key, redact.Error(err))
	}
	message := signedMessage(key, body)
	for _, sig := range s.Signatures {
		for _, k := range t {
			if sig.Key == k.ID() && ed25519.Verify(k.key, message, sig.Ed25519) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %s is not signed by a trusted key", ErrSignature, key)
}
