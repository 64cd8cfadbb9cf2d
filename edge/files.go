package edge

import (
	"context"
	"log/slog"

	"example.com/marketdata/edge/server"
)

// otherFiles is how many files an edge needs beside its clients' connections:
// those of the admin listener (256), to the store and to Redis, the disk copy's,
// and connections that are being turned away (64).
const otherFiles = 512

// fitConns returns how many connections there may be, at most conns, when the
// process may open so many files. Accepting more would take the files that the
// store and the disk copy need.
func fitConns(conns int, files uint64, log *slog.Logger) int {
	// With few files, half of them are for clients.
	most := max(1, files/2)
	if files > 2*otherFiles {
		most = files - otherFiles
	}
	if conns <= 0 || uint64(conns) <= most {
		return conns
	}
	fit, level := int(most), slog.LevelWarn
	if conns == server.DefaultMaxConns { // which nobody asked for
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level,
		"the limit of open files sets the number of connections; a higher hard limit allows more (ulimit -Hn, LimitNOFILE= in systemd)",
		"max_conns", fit, "asked", conns, "files", files, "needed", conns+otherFiles)
	return fit
}
