// Package haproxy embeds the configuration of HAProxy in front of edges, as compose.yaml
// mounts it, for programs that run it without a container engine.
package haproxy

import _ "embed"

// Config is haproxy.cfg.
//
//go:embed haproxy.cfg
var Config []byte
