// Package s3store keeps an artifacts.Store in a bucket of Amazon S3, or of a server that speaks its
// protocol and honours conditional writes. MinIO and versitygw pass package storetest's tests;
// SelfTest finds out about any other.
//
// # Address
//
//	s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1
//
// The prefix may be empty or have several segments. All parameters are optional:
//
//	endpoint    http or https, host and port; without it Amazon's own
//	region      default: AWS_REGION, or else us-east-1
//	path-style  true: http://host/bucket/key, false: http://bucket.host/key;
//	            default: true with an endpoint, false without
//	profile     of the file that AWS_SHARED_CREDENTIALS_FILE names, for a store with credentials of
//	            its own; default: the usual credentials
//
// # Credentials
//
// The first of these that is set gives them:
//
//   - AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, fixed for the life of the store
//   - the file AWS_SHARED_CREDENTIALS_FILE, its profile AWS_PROFILE or else default; it is read again
//     when it has changed
//   - the role of the instance, task or pod, asked again when four fifths of its time are over, and
//     never by a proxy (package direct)
//
// A request whose signature the store refuses is repeated once with the newest credentials of file
// or role. If newer ones cannot be had, the last ones go on until they end or are refused.
//
// An edge needs s3:GetObject, and s3:ListBucket on the
// bucket: without it Amazon answers 403 for an object that is not there. A builder needs
// s3:PutObject and s3:DeleteObject too.
//
// What is wrong with bucket or credentials gives artifacts.ErrNoAccess and names
// the bucket, or the variable that the access key is from.
//
// # Conditions
//
// Put sends If-None-Match: *. When there is an object (412, or 409 when another request for the key
// is under way), it reads the object: equal bytes are written again with If-Match, so that Modified
// moves and gc's grace period starts anew; so are those that the key is named after, in the place
// of others, which are damaged. Any other bytes are a conflict. Swap sends If-Match or
// If-None-Match: *; both 412 and 409 mean that it changed nothing, and 409 also that it may be
// repeated (artifacts.BusyError), as 429 and 503 SlowDown do. A version is the object's ETag
// without its quotes. Servers derive ETags from the contents or not: equal bytes may have equal
// versions.
//
// # One attempt
//
// Every request is tried once, unless its signature was refused, since a retry of a conditional
// write that had been applied would be refused for its own success. (MinIO's client tries ten times
// by default.) Package retry repeats what failed, but not what package refusal lists, and of writes
// no 4xx but 408, 409 and 429. Connecting, TLS, the wait for an answer and every pause in a transfer
// are bounded, those of a read by five seconds; a whole call is bounded by its context.
//
// # On the wire
//
// Bodies are sent whole, signed with their SHA-256 and with their Content-MD5 (which buckets with a
// retention period demand), over http and https alike: no aws-chunked encoding and no trailing
// checksums, which some servers refuse. Objects are read with one GET; there are no HEAD requests, whose
// errors have no body and so cannot tell a missing bucket from a missing key.
package s3store
