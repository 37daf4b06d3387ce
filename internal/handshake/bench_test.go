package handshake

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkStream compares the throughput of a connection with that of the TCP connection below it, in
// pieces of 1 MiB over the loopback.
func BenchmarkStream(b *testing.B) {
	for name, wrap := range map[string]func(near, far net.Conn) (io.Writer, io.Reader){
		"plain": func(near, far net.Conn) (io.Writer, io.Reader) { return near, far },
		"sealed": func(near, far net.Conn) (io.Writer, io.Reader) {
			done := make(chan *Conn, 1)
			go func() {
				c, _ := server(context.Background(), far, identityOf(b, testProtocol, "secret", listens, dials), func() {})
				done <- c
			}()
			c, err := client(context.Background(), near, identityOf(b, testProtocol, "secret", dials, listens), nil)
			require.NoError(b, err)
			return c, <-done
		},
	} {
		b.Run(name, func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			near, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(b, err)
			far, err := ln.Accept()
			require.NoError(b, err)
			require.NoError(b, ln.Close())
			to, from := wrap(near, far)
			piece, into := make([]byte, 1<<20), make([]byte, 1<<20)
			b.SetBytes(int64(len(piece)))
			read := make(chan error, 1)
			b.ResetTimer()
			go func() {
				var err error
				for range b.N {
					if _, err = io.ReadFull(from, into); err != nil {
						break
					}
				}
				read <- err
			}()
			for range b.N {
				_, err := to.Write(piece)
				require.NoError(b, err)
			}
			require.NoError(b, <-read)
			require.NoError(b, near.Close())
			require.NoError(b, far.Close())
		})
	}
}
