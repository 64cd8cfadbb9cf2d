// Package check tests the files of deploy with the programs and parsers that read them: promtool,
// BuildKit, compose-go, kustomize and Kubernetes' types, HAProxy, systemd, actionlint (for the
// workflows, which make releases), and the project's own programs. It needs neither Docker nor a
// cluster.
//
// It is a separate module, so that these parsers do not appear in the project's go.sum. It contains
// only tests, which make test-deploy runs.
package check
