package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// adminSocket is the FileDescriptorName= of the socket for --admin. All other sockets are for --listen.
const adminSocket = "admin"

// passedSockets returns the sockets that systemd passes as described in sd_listen_fds(3). A unit may have
// several ListenStream= lines, for example for IPv4 and IPv6.
func passedSockets() (public []net.Listener, admin net.Listener, err error) {
	named, err := activation.ListenersWithNames()
	if err != nil {
		return nil, nil, fmt.Errorf("sockets of systemd: %w", err)
	}
	for name, all := range named {
		switch {
		case name != adminSocket:
			public = append(public, all...)
		case len(all) > 1:
			return nil, nil, fmt.Errorf("systemd passes two sockets, %v and %v, with FileDescriptorName=%s: want one",
				all[0].Addr(), all[1].Addr(), adminSocket)
		default:
			admin = all[0]
		}
	}
	return public, admin, nil
}

// tellSystemd sends a state to systemd as described in sd_notify(3). It does nothing if systemd does not
// expect one.
func tellSystemd(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("cannot notify systemd", "state", state, "err", err)
	}
}

// feedWatchdog notifies systemd that the edge is alive while the admin listener answers, if the unit sets
// WatchdogSec=.
func feedWatchdog(ctx context.Context, admin string, log *slog.Logger) {
	patience, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("cannot read the watchdog settings of systemd", "err", err)
	}
	if patience <= 0 {
		return
	}
	ticker := time.NewTicker(patience / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := ask(ctx, admin, "/livez"); err == nil {
			tellSystemd(log, daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			log.Error("the admin listener does not answer; systemd is not notified", "err", err)
		}
	}
}
