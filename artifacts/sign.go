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

// ErrSignature reports an object that is not signed by a trusted key.
var ErrSignature = errors.New("signature")

// The prefixes distinguish the private half of a key pair from the public half.
const (
	signKeyPrefix  = "mdsign_"
	trustKeyPrefix = "mdtrust_"
)

// SignKey is the private half of an Ed25519 key pair. Builders use it to sign the cells that edges
// read.
type SignKey struct{ key ed25519.PrivateKey }

// TrustKey is the public half of a key pair. Edges use it to verify signatures.
type TrustKey struct{ key ed25519.PublicKey }

// NewSignKey generates a key pair with the given source of randomness.
func NewSignKey(random io.Reader) (SignKey, error) {
	_, key, err := ed25519.GenerateKey(random)
	return SignKey{key}, err
}

// ParseSignKey parses the result of SignKey.Text. It ignores white space at both ends.
func ParseSignKey(text string) (SignKey, error) {
	seed, err := parseKeyText(text, signKeyPrefix, ed25519.SeedSize)
	if err != nil {
		return SignKey{}, fmt.Errorf("sign key: %w", err)
	}
	return SignKey{ed25519.NewKeyFromSeed(seed)}, nil
}

// ParseTrustKey parses the result of TrustKey.Text. It ignores white space at both ends.
func ParseTrustKey(text string) (TrustKey, error) {
	key, err := parseKeyText(text, trustKeyPrefix, ed25519.PublicKeySize)
	if err != nil {
		return TrustKey{}, fmt.Errorf("trust key: %w", err)
	}
	return TrustKey{key}, nil
}

// parseKeyText parses a key with the given prefix and size. Its errors never contain the text,
// which may be a secret.
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

// Text returns the key in the form in which it is kept in a file. The result is a secret.
func (k SignKey) Text() string {
	return signKeyPrefix + base64.RawURLEncoding.EncodeToString(k.key.Seed())
}

// Trust returns the public half of the pair.
func (k SignKey) Trust() TrustKey { return TrustKey{k.key.Public().(ed25519.PublicKey)} }

// Text returns the key in the form that edges accept.
func (k TrustKey) Text() string { return trustKeyPrefix + base64.RawURLEncoding.EncodeToString(k.key) }

// ID returns a short name of the key: 16 hexadecimal digits.
func (k TrustKey) ID() string {
	d := sha256.Sum256(k.key)
	return hex.EncodeToString(d[:8])
}

// signature is one element of the line of signatures.
type signature struct {
	Key     string `json:"key"`
	Ed25519 []byte `json:"ed25519"`
}

type signatureLine struct {
	Signatures []signature `json:"signatures"`
}

// signatureStart is the beginning of the line of signatures. No signed object has a field with this
// name.
const signatureStart = `{"signatures":[`

// Sign returns the stored form of a signed cell: body, which is one line, and a line with one
// signature by each key. Each signature covers body as well as the cell's key in the store, so that
// one cell cannot be passed off as another. Without keys, Sign returns body. A checkpoint becomes a
// signed note instead; the text of a note never begins like the signed message of another cell.
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

// Unsigned returns a cell without its signatures.
func Unsigned(b []byte) []byte {
	body, _ := splitSigned(b)
	return body
}

// splitSigned splits a cell into its body and its line of signatures, which is nil if there is
// none. It splits a note, which is not a JSON object, into its text and its signatures.
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

// SignedBy reports whether a cell is signed, and returns the ids of the keys whose signatures it
// has. For a note, these are the key hashes in its signature lines. SignedBy does not verify
// anything.
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

// Trust is the set of keys that an edge trusts. A signature by any one of them is enough, so that a
// new key can be introduced before the old one is removed.
type Trust []TrustKey

// Verify returns nil if b, read under the given key of the store, is signed by a key in t.
// Otherwise the error wraps ErrSignature.
func (t Trust) Verify(key Key, b []byte) error {
	if key == CheckpointKey {
		return t.verifyNote(b)
	}
	body, line := splitSigned(b)
	if line == nil {
		return fmt.Errorf(
			"%w: %s is not signed, but a trusted key was given: sign the store with builder sign, or give no key",
			ErrSignature, key)
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
