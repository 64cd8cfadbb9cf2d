// Package check holds the files of deploy against those who read them: promtool,
// BuildKit, compose-go, kustomize and Kubernetes' types, HAProxy, systemd, actionlint
// (of the workflows, which make releases), and the project's own programs. It needs no Docker and no cluster.
//
// It is a module of its own, so that those parsers stay out of the project's
// go.sum. It holds tests only; make test-deploy runs them.
package check
