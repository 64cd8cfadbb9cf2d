// Package s3store keeps an artifacts.Store in a bucket of Amazon S3, or of a server that implements
// its protocol and honors conditional writes. MinIO and versitygw pass the tests of package
// storetest. SelfTest checks any other server.
//
// # Address
//
//	s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1
//
// The prefix may be empty or have several segments. All parameters are optional:
//
//	endpoint    http or https, host and port; default: Amazon's own
//	region      default: AWS_REGION, or else us-east-1
//	path-style  true: http://host/bucket/key, false: http://bucket.host/key;
//	            default: true with an endpoint, false without
//	profile     a profile of the file that AWS_SHARED_CREDENTIALS_FILE names, for a store with
//	            its own credentials; default: the credentials described below
//
// # Credentials
//
// The first of these that is set provides the credentials:
//
//   - AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, which stay fixed for the life
//     of the store
//   - the file AWS_SHARED_CREDENTIALS_FILE, with the profile AWS_PROFILE or, if that is not set,
//     default; the file is read again whenever it has changed
//   - the role of the instance, task or pod; new credentials are requested after four fifths of the
//     old ones' lifetime, and never through a proxy (package direct)
//
// If the store rejects the signature of a request, the request is repeated once with the newest
// credentials of the file or role. If newer credentials are not available, the last ones stay in
// use until they expire or are rejected.
//
// An edge needs s3:GetObject, and s3:ListBucket on the bucket, because without the latter Amazon
// answers 403 for a missing object. A builder also needs s3:PutObject and s3:DeleteObject.
//
// Problems with the bucket or the credentials are reported as artifacts.ErrNoAccess. The error
// names the bucket, or the variable from which the access key was read.
//
// # Conditions
//
// Put sends If-None-Match: *. If the object exists (412, or 409 if another request for the key is
// in progress), Put reads it. If the bytes are equal, Put writes them again with If-Match, so that
// Modified changes and gc's grace period starts again. If they differ but the key contains the
// digest of the new bytes, the stored object is damaged, and Put replaces it in the same way. Any
// other bytes are a conflict.
//
// Swap sends If-Match or If-None-Match: *. Both 412 and 409 mean that it changed nothing. 409 also
// means that it may be retried (artifacts.BusyError), as do 429 and 503 SlowDown. A version is the
// object's ETag without its quotation marks. Some servers derive ETags from the contents, so equal
// bytes may have equal versions.
//
// # One attempt
//
// Every request is tried once, except after a rejected signature: if a conditional write was
// applied but its answer was lost, a retry would be refused because of the write's own success.
// (MinIO's client tries ten times by default.) Package retry repeats failed calls, except after the
// errors that package refusal lists, and after 4xx answers to writes other than 408, 409 and 429.
// Time limits apply to connecting, to the TLS handshake, to waiting for an answer and to every pause in
// a transfer. For most reads, they are five seconds. The caller's context limits the whole call.
//
// # On the wire
//
// Bodies are sent whole, signed with their SHA-256 and with their Content-MD5, which buckets with a
// retention period require. This is the same over http and https: the store uses neither
// aws-chunked encoding nor trailing checksums, which some servers reject. Objects are read with one
// GET. The store sends no HEAD requests: their errors have no body, so they cannot tell a missing
// bucket from a missing key.
package s3store
