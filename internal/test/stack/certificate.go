package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateFile returns the path of the certificate that clients must trust.
func certificateFile(dir string) string { return filepath.Join(dir, "certificate.pem") }

// makeCertificate creates a self-signed certificate for this machine and the given names. It
// returns the path of a file that holds the certificate and its key in the form that HAProxy needs.
// Each start creates a new certificate.
func makeCertificate(dir string, names ...string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "marketdata on this machine"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 1, 0),
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true, // it is its own issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	var both bytes.Buffer
	if err := pem.Encode(&both, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return "", err
	}
	if err := os.WriteFile(certificateFile(dir), both.Bytes(), 0o644); err != nil {
		return "", err
	}
	if err := pem.Encode(&both, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "haproxy.pem")
	return file, os.WriteFile(file, both.Bytes(), 0o600)
}
