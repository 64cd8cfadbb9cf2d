// Package haproxy embeds the HAProxy configuration for a proxy in front of edges. It is the file
// that compose.yaml mounts, for programs that run HAProxy without a container engine.
package haproxy

import _ "embed"

// Config is haproxy.cfg.
//
//go:embed haproxy.cfg
var Config []byte
