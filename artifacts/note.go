package artifacts

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
)

// noteSignatures separates the text of a note from its signatures.
const noteSignatures = "\n\n\u2014 "

// NoteKey returns the key in the form of signed notes (C2SP signed-note, "Verifier keys") under the
// name of a log, for programs that verify checkpoints.
func (k TrustKey) NoteKey(name string) (string, error) {
	return note.NewEd25519VerifierKey(name, k.key)
}

// noteSigner combines a verifier with its private key.
type noteSigner struct {
	note.Verifier
	key ed25519.PrivateKey
}

// Sign implements note.Signer.
func (s noteSigner) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// verifier returns a verifier for signatures of the checkpoint text by k. The verifier's name is
// the checkpoint's origin, which is the first line of text.
func (k TrustKey) verifier(text []byte) (note.Verifier, error) {
	name, _, _ := bytes.Cut(text, []byte{'\n'})
	vkey, err := k.NoteKey(string(name))
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(vkey)
}

// signNote returns a checkpoint with one signature by each key. text must be a valid checkpoint.
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

// verifyNote implements Verify for checkpoints.
func (t Trust) verifyNote(b []byte) error {
	var known []note.Verifier
	for i, k := range t {
		v, err := k.verifier(b)
		if err != nil {
			return fmt.Errorf("%w: %s: it does not begin with an origin: %w", ErrSignature, CheckpointKey, err)
		}
		if !slices.ContainsFunc(t[:i], func(before TrustKey) bool { return before.key.Equal(k.key) }) {
			known = append(known, v) // A note rejects verifiers with equal keys.
		}
	}
	n, err := note.Open(b, note.VerifierList(known...))
	// Package note ignores stray bits at the end of a signature's base64, so it accepts several
	// encodings of the same signature.
	for i := 0; err == nil && i < len(n.Sigs); i++ {
		_, err = base64.StdEncoding.Strict().DecodeString(n.Sigs[i].Base64)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not signed by a trusted key: %w", ErrSignature, CheckpointKey, err)
	}
	return nil
}
