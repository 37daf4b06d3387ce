package handshake

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
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

// ErrForged reports data that the peer did not send at this position of the stream.
var ErrForged = errors.New("data is not from the peer")

// Conn is a connection to a peer that knows the secret, over TLS 1.3. One goroutine at a time may write, and one may
// read.
//
// Read and Write transfer a stream of bytes. Send and Receive transfer messages over that stream:
// the length (8 bytes, big endian) and the message.
//
// Close and CloseWrite end the connection below without the alert of TLS, which could wait for a peer that does not
// read: the lengths of messages show what is missing.
type Conn struct {
	net.Conn // below TLS
	hello    []byte
	sealed   *tls.Conn
	out      *bufio.Writer // to sealed, so that small pieces share a record
}

// recordMax is how much TLS puts into a record.
const recordMax = 16 << 10

func newConn(conn net.Conn, sealed *tls.Conn) *Conn {
	return &Conn{Conn: conn, sealed: sealed, out: bufio.NewWriterSize(sealed, recordMax)}
}

// Hello returns the message with which the dialing side introduced itself.
func (c *Conn) Hello() []byte { return c.hello }

// Write encrypts p and writes it.
func (c *Conn) Write(p []byte) (int, error) { return c.sealed.Write(p) }

// WriteAll writes the pieces one after the other. The peer reads them as one stream.
func (c *Conn) WriteAll(pieces ...[]byte) error {
	for _, p := range pieces {
		if _, err := c.out.Write(p); err != nil {
			return err
		}
	}
	return c.out.Flush()
}

// Read reads decrypted bytes. It fails with ErrForged if the peer has not sent them.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.sealed.Read(p)
	var op *net.OpError
	var header tls.RecordHeaderError
	if errors.As(err, &op) && op.Op == "local error" || errors.As(err, &header) {
		err = fmt.Errorf("%w: %w", ErrForged, err)
	}
	return n, err
}

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
	head := binary.BigEndian.AppendUint64(nil, size)
	return c.WriteAll(slices.Concat([][]byte{head}, pieces)...)
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
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
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
