// Package refusal has the table of what stores refuse for good, with advice for their operators.
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

// rule says what an answer of a store means. An answer of an S3 server has a code or a status, a file
// system's an operation and an error.
type rule struct {
	code   string
	status int
	op     string // of fs.PathError and os.LinkError
	errs   []error
	is     error  // artifacts.ErrNoAccess or artifacts.ErrRefused
	advice string // may contain the words that Place.fill replaces
}

var unsupported = []error{unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL}

var table = []rule{
	{code: "NoSuchBucket", is: artifacts.ErrNoAccess,
		advice: "there is no bucket {bucket} at {endpoint}: make it there, or mend the address"},
	{code: "InvalidAccessKeyId", is: artifacts.ErrNoAccess,
		advice: "{endpoint} knows no access key like that of {access}"},
	{code: "SignatureDoesNotMatch", is: artifacts.ErrNoAccess,
		advice: "the secret key is not that of the access key of {access}"},
	{code: "ExpiredToken", is: artifacts.ErrNoAccess,
		advice: "the session token beside the access key of {access} is not in force"},
	{code: "InvalidToken", is: artifacts.ErrNoAccess,
		advice: "the session token beside the access key of {access} is not in force"},
	{code: "RequestTimeTooSkewed", is: artifacts.ErrNoAccess,
		advice: "the clocks of this machine and of {endpoint} are more than 15 minutes apart: set them right"},
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
		advice: "the file system has no locks, which a store needs: on NFS, mount it with them"},
	{op: "sync", errs: unsupported, is: artifacts.ErrRefused,
		advice: "the file system has no fsync, without which a power cut loses what was published"},
	{errs: []error{unix.EROFS}, is: artifacts.ErrRefused, advice: "the file system is mounted read-only"},
	{errs: []error{unix.EACCES, unix.EPERM}, is: artifacts.ErrNoAccess,
		advice: "this user lacks the permission: the builder writes everywhere in the folder"},
}

const wrongRegion = "bucket {bucket} is in {region}: name it in the address (region=) or in AWS_REGION"

// NoLastModified is the code of a list without times, which no server calls by a name.
const NoLastModified = "no LastModified"

// Answer is an S3 server's.
type Answer struct {
	Status int
	Code   string
	Region string // that it names as the bucket's; may be empty
	// Endpoint, Bucket, Access and Action are what was asked: where, with whose access key, for which permission.
	Endpoint, Bucket, Access, Action string
}

// Explain returns artifacts.ErrNoAccess or artifacts.ErrRefused with advice, nil if the table does not have a.
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

// Folder returns the error of a file system with advice, if the table has it.
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
