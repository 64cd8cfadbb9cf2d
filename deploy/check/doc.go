// Package check holds the files of deploy against the programs that they
// configure, with the parsers of those who will read the files: Prometheus',
// BuildKit's, Compose's, Kubernetes', systemd's. It needs no Docker and no
// cluster.
//
// It is a module of its own, so that those parsers stay out of the project's
// go.sum. It holds tests only; make test-deploy runs them.
package check
