package artifacts

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
)

// noteSignatures is how the signatures of a note begin, behind its last line.
const noteSignatures = "\n\n\u2014 "

// NoteKey returns the key in the form of signed notes (C2SP signed-note, "Verifier keys"), under a
// log's name, for programs that verify checkpoints.
func (k TrustKey) NoteKey(name string) (string, error) {
	return note.NewEd25519VerifierKey(name, k.key)
}

// noteSigner adds to a key's verifier its private half.
type noteSigner struct {
	note.Verifier
	key ed25519.PrivateKey
}

// Sign implements note.Signer.
func (s noteSigner) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// verifier returns the key under the name of those that sign a checkpoint: its origin, the first line.
func (k TrustKey) verifier(text []byte) (note.Verifier, error) {
	name, _, _ := bytes.Cut(text, []byte{'\n'})
	vkey, err := k.NoteKey(string(name))
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(vkey)
}

// signNote returns a checkpoint, whose text the program itself has made, with a signature by each key.
func signNote(text []byte, keys []SignKey) []byte {
	var signers []note.Signer
	var b []byte
	var err error
	for _, k := range keys {
		var v note.Verifier
		if v, err = k.Trust().verifier(text); err != nil {
			break
		}
		signers = append(signers, noteSigner{v, k.key})
	}
	if err == nil {
		b, err = note.Sign(&note.Note{Text: string(text)}, signers...)
	}
	if err != nil {
		panic("BUG: checkpoint: " + err.Error())
	}
	return b
}

// verifyNote is Verify for a checkpoint.
func (t Trust) verifyNote(b []byte) error {
	var known []note.Verifier
	for i, k := range t {
		v, err := k.verifier(b)
		if err != nil {
			return fmt.Errorf("%w: %s: it does not begin with a name: %w", ErrSignature, CheckpointKey, err)
		}
		if !slices.ContainsFunc(t[:i], func(before TrustKey) bool { return before.key.Equal(k.key) }) {
			known = append(known, v) // a note's keys must differ
		}
	}
	n, err := note.Open(b, note.VerifierList(known...))
	for i := 0; err == nil && i < len(n.Sigs); i++ { // package note passes over bits that mean nothing
		_, err = base64.StdEncoding.Strict().DecodeString(n.Sigs[i].Base64)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not signed by a trusted key: %w", ErrSignature, CheckpointKey, err)
	}
	return nil
}
