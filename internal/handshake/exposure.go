package handshake

import (
	"context"
	"net"
	"strings"
)

// Exposed reports whether other hosts may reach a host:port: whether it is not on the loopback. A
// name is looked up, and counts as exposed when it has no address.
func Exposed(ctx context.Context, address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if strings.EqualFold(host, "localhost") {
		return false
	}
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback()
	}
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return true
		}
	}
	return err != nil || len(ips) == 0
}
