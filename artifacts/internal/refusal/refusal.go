// Package refusal recognizes store errors that no retry can fix, and adds advice for operators.
package refusal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"example.com/marketdata/artifacts"
	"golang.org/x/sys/unix"
)

// rule describes an error of a store. An error of an S3 server is recognized by its code or its
// HTTP status, an error of a file system by its operation and its cause.
type rule struct {
	code   string
	status int
	op     string // the Op of an fs.PathError or os.LinkError
	errs   []error
	is     error  // artifacts.ErrNoAccess or artifacts.ErrRefused
	advice string // may contain placeholders such as {bucket}, which Explain replaces
}

var unsupported = []error{unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL}

var table = []rule{
	{code: "NoSuchBucket", is: artifacts.ErrNoAccess,
		advice: "{endpoint} has no bucket {bucket}: create it there, or correct the address"},
	{code: "InvalidAccessKeyId", is: artifacts.ErrNoAccess,
		advice: "{endpoint} does not know the access key of {access}"},
	{code: "SignatureDoesNotMatch", is: artifacts.ErrNoAccess,
		advice: "the secret key does not belong to the access key of {access}"},
	{code: "ExpiredToken", is: artifacts.ErrNoAccess,
		advice: "the session token of the access key of {access} is invalid or expired"},
	{code: "InvalidToken", is: artifacts.ErrNoAccess,
		advice: "the session token of the access key of {access} is invalid or expired"},
	{code: "RequestTimeTooSkewed", is: artifacts.ErrNoAccess,
		advice: "the clocks of this machine and of {endpoint} differ by more than 15 minutes: correct them"},
	{code: "AccessDenied", is: artifacts.ErrNoAccess,
		advice: "the access key of {access} lacks the permission {action} in bucket {bucket} (deploy/policies)"},
	{code: "AuthorizationHeaderMalformed", is: artifacts.ErrNoAccess, advice: wrongRegion},
	{code: "PermanentRedirect", is: artifacts.ErrNoAccess, advice: wrongRegion},
	{code: "IllegalLocationConstraintException", is: artifacts.ErrNoAccess, advice: wrongRegion},
	{code: "InvalidRegion", is: artifacts.ErrNoAccess, advice: wrongRegion},
	{status: 501, is: artifacts.ErrRefused, advice: "{endpoint} does not implement a header of the request: a store" +
		" needs If-None-Match: * and If-Match in writes, and If-None-Match in reads (deploy/README.md, \"S3 servers\")"},
	{code: NoLastModified, is: artifacts.ErrRefused, advice: "the lists of {endpoint} do not say when an object was" +
		" written, so that gc cannot tell new objects from old ones (deploy/README.md, \"S3 servers\")"},

	{op: "link", errs: append([]error{unix.EPERM}, unsupported...), is: artifacts.ErrRefused,
		advice: "the file system makes no hard links, which a store needs"},
	{op: "flock", errs: append([]error{unix.ENOLCK}, unsupported...), is: artifacts.ErrRefused,
		advice: "the file system has no locks, which a store needs: on NFS, mount it with locking"},
	{op: "sync", errs: unsupported, is: artifacts.ErrRefused,
		advice: "the file system has no fsync: a power cut would lose published data"},
	{errs: []error{unix.EROFS}, is: artifacts.ErrRefused, advice: "the file system is mounted read-only"},
	{errs: []error{unix.EACCES, unix.EPERM}, is: artifacts.ErrNoAccess,
		advice: "this user lacks a permission: the builder must be able to write everywhere in the folder"},
}

const wrongRegion = "bucket {bucket} is in {region}: name it in the address (region=) or in AWS_REGION"

// NoLastModified is our own error code for a list without modification times, because S3 has no
// such code.
const NoLastModified = "no LastModified"

// Answer is an error answer of an S3 server.
type Answer struct {
	Status int
	Code   string
	Region string // the region of the bucket according to the server; may be empty
	// Endpoint, Bucket, Access and Action describe the request: where it was sent, whose access key
	// signed it, and which permission it needs.
	Endpoint, Bucket, Access, Action string
}

// Explain returns artifacts.ErrNoAccess or artifacts.ErrRefused with advice, or nil if no rule
// matches.
func (a Answer) Explain() error {
	for _, r := range table {
		if r.code != "" && r.code == a.Code || r.status != 0 && r.status == a.Status {
			return fmt.Errorf("%w: %s", r.is, strings.NewReplacer("{endpoint}", a.Endpoint,
				"{bucket}", fmt.Sprintf("%q", a.Bucket), "{access}", a.Access, "{action}", a.Action,
				"{region}", cmp.Or(a.Region, "another region")).Replace(r.advice))
		}
	}
	return nil
}

// Folder adds advice to the error of a file system if a rule matches.
func Folder(err error) error {
	var op string
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		op = path.Op
	case errors.As(err, &link):
		op = link.Op
	default:
		return err
	}
	for _, r := range table {
		for _, e := range r.errs {
			if (r.op == "" || r.op == op) && errors.Is(err, e) {
				return fmt.Errorf("%w: %s: %w", r.is, r.advice, err)
			}
		}
	}
	return err
}
