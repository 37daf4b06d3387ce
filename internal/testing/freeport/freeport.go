package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Free returns a loopback address on which no process listens. The port is outside the ephemeral range,
// because connections of other tests may take any port of that range before the program does.
func Free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000))))
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		return ln.Addr().String()
	}
	t.Fatal("none of a thousand ports from 20000 to 29999 is free")
	return ""
}

// Number returns the port of an address.
func Number(t testing.TB, address string) string {
	t.Helper()
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
