package edge

import (
	"context"
	"log/slog"

	"example.com/marketdata/edge/server"
)

// otherFiles is the number of open files that an edge needs besides its clients' connections: connections to
// the admin listener (256), the store and Redis, files of the disk copy, and connections that it is about to
// refuse (64).
const otherFiles = 512

// fitConns returns the number of connections, at most conns, that fit into the given limit on open files.
// More connections would use up the open files that the store and the disk copy need.
func fitConns(conns int, files uint64, log *slog.Logger) int {
	// If the limit is low, half of the open files are for clients.
	most := max(1, files/2)
	if files > 2*otherFiles {
		most = files - otherFiles
	}
	if conns <= 0 || uint64(conns) <= most {
		return conns
	}
	fit, level := int(most), slog.LevelWarn
	if conns == server.DefaultMaxConns { // nobody asked for this number
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level,
		"the limit of open files sets the number of connections; a higher hard limit allows more (ulimit -Hn, LimitNOFILE= in systemd)",
		"max_conns", fit, "asked", conns, "files", files, "needed", conns+otherFiles)
	return fit
}
