package logs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"
)

// Text returns the text of an error and, if a person can remove the cause, advice.
func Text(err error) string {
	text := err.Error()
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var name *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return text + "; another program listens there: end it, or take another port"
	case errors.Is(err, syscall.ECONNREFUSED):
		return text + "; nothing listens there: is the address right, and does the server run?"
	case errors.As(err, &name) && name.IsNotFound:
		return text + "; is the host's name right?"
	case errors.Is(err, http.ErrSchemeMismatch):
		return text + "; it has no TLS: the address begins with http://"
	case errors.As(err, &authority):
		return text + "; have this machine trust it: SSL_CERT_FILE names a file of certificates"
	case errors.As(err, &host):
		return text + "; ask it by a name that its certificate has"
	case errors.Is(err, fs.ErrPermission):
		return text + fmt.Sprintf("; user %d, whom this program runs as, must be let", os.Geteuid())
	case errors.Is(err, syscall.ENOSPC):
		return text + "; make room there"
	}
	return text
}
