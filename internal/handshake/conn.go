package handshake

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// SizeError reports a message that is longer than its reader allows.
type SizeError struct {
	Size  uint64 // length that the sender announced, in bytes
	Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%d bytes announced, at most %d allowed", e.Size, e.Limit)
}

// Conn is a connection to a peer that knows the secret. Everything that passes over it is encrypted
// and authenticated. One goroutine at a time may write, and one may read.
//
// Read and Write transfer a stream of bytes. Send and Receive transfer messages over that stream:
// the length (8 bytes, big endian) and the message.
type Conn struct {
	net.Conn
	hello   []byte
	out, in records
}

// newConn derives a key for each direction: the listener sends with "down" and receives with "up".
func newConn(conn net.Conn, t *transcript, agreed []byte, listens bool) *Conn {
	down, up := newRecords(t.key(agreed, "down")), newRecords(t.key(agreed, "up"))
	if listens {
		return &Conn{Conn: conn, out: down, in: up}
	}
	return &Conn{Conn: conn, out: up, in: down}
}

// Hello returns the message with which the dialing side introduced itself.
func (c *Conn) Hello() []byte { return c.hello }

// Write encrypts p and writes it.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.out.write(c.Conn, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAll writes the pieces one after the other. The peer reads them as one stream.
func (c *Conn) WriteAll(pieces ...[]byte) error { return c.out.write(c.Conn, pieces...) }

// Read reads decrypted bytes. It fails with ErrForged if the peer has not sent them.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(c.Conn, p) }

// CloseWrite ends the stream to the peer, if the connection below can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Send writes the pieces as one message.
func (c *Conn) Send(pieces ...[]byte) error {
	size := uint64(0)
	for _, p := range pieces {
		size += uint64(len(p))
	}
	all := make([][]byte, 0, len(pieces)+1)
	all = append(all, binary.BigEndian.AppendUint64(nil, size))
	return c.out.write(c.Conn, append(all, pieces...)...)
}

// Receive returns the next message, of at most limit bytes.
func (c *Conn) Receive(limit int) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint64(head[:])
	if size > uint64(limit) {
		return nil, &SizeError{Size: size, Limit: limit}
	}
	// The buffer grows with the bytes received, so that a wrong length in the header allocates
	// nothing.
	var message bytes.Buffer
	if _, err := io.CopyN(&message, c, int64(size)); err != nil {
		return nil, unexpected(err)
	}
	return message.Bytes(), nil
}

// Bound makes reads and writes fail when ctx ends, and also at limit if it is not zero. The caller
// must call release after the exchange; from then on ctx no longer affects the connection, even if
// it ends at the same moment. The deadline stays until the next Bound or SetDeadline.
func (c *Conn) Bound(ctx context.Context, limit time.Time) (release func()) {
	return bound(ctx, c.Conn, limit)
}

func bound(ctx context.Context, conn net.Conn, limit time.Time) (release func()) {
	if d, ok := ctx.Deadline(); ok && (limit.IsZero() || d.Before(limit)) {
		limit = d
	}
	_ = conn.SetDeadline(limit) // a closed connection fails at the next read
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}
