package handshake

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExposed(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": false, "127.3.2.1:80": false, "[::1]:80": false, "localhost:80": false, "LOCALHOST": false, "::1": false,
		"10.0.0.1:80": true, ":80": true, "0.0.0.0:80": true, "[::]:80": true, "[fe80::1]:80": true, "": true, "name.invalid:80": true,
	} {
		assert.Equal(t, want, Exposed(t.Context(), address), "%q", address)
	}
}
