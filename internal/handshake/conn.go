package handshake

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"time"
)

// ErrForged reports a frame that the peer did not send at this position of the stream.
var ErrForged = errors.New("a frame is not from the peer")

// SizeError reports a frame that is longer than its reader allows.
type SizeError struct {
	Size  uint64 // length in the frame's header, in bytes
	Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%d bytes announced, at most %d allowed", e.Size, e.Limit)
}

// Conn is a connection to a peer that knows the secret. One goroutine at a time may send, and one
// may receive.
//
// Send and Receive exchange frames: the length of the message (8 bytes, big endian), the message,
// and an HMAC-SHA256 (32 bytes) of the frame's number and the message, with a key for this
// connection and direction. Read and Write of the embedded connection bypass the frames.
type Conn struct {
	net.Conn
	hello          []byte
	out, in        hash.Hash
	sent, received uint64
}

// newConn derives a key for each direction: the listener sends with "down" and receives with "up".
func newConn(conn net.Conn, secret []byte, t *transcript, listens bool) *Conn {
	down, up := hmac.New(sha256.New, t.proof(secret, "down")), hmac.New(sha256.New, t.proof(secret, "up"))
	if listens {
		return &Conn{Conn: conn, out: down, in: up}
	}
	return &Conn{Conn: conn, out: up, in: down}
}

// Hello returns the message with which the dialing side introduced itself.
func (c *Conn) Hello() []byte { return c.hello }

// sum returns the HMAC of a frame number and the pieces of a message.
func sum(h hash.Hash, number uint64, pieces ...[]byte) []byte {
	h.Reset()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], number)
	h.Write(n[:])
	for _, p := range pieces {
		h.Write(p)
	}
	return h.Sum(nil)
}

// Send writes the pieces as one message, without copying them.
func (c *Conn) Send(pieces ...[]byte) error {
	size := uint64(0)
	for _, p := range pieces {
		size += uint64(len(p))
	}
	frame := make(net.Buffers, 0, len(pieces)+2)
	frame = append(frame, binary.BigEndian.AppendUint64(nil, size))
	frame = append(frame, pieces...)
	frame = append(frame, sum(c.out, c.sent, pieces...))
	c.sent++
	_, err := frame.WriteTo(c.Conn)
	return err
}

// Receive returns the next message, of at most limit bytes.
func (c *Conn) Receive(limit int) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint64(head[:])
	if size > uint64(limit) {
		return nil, &SizeError{Size: size, Limit: limit}
	}
	// The buffer grows with the bytes received, so that a wrong length in the header allocates
	// nothing.
	var message bytes.Buffer
	if _, err := io.CopyN(&message, c.Conn, int64(size)); err != nil {
		return nil, unexpected(err)
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(c.Conn, got[:]); err != nil {
		return nil, unexpected(err)
	}
	if !hmac.Equal(got[:], sum(c.in, c.received, message.Bytes())) {
		return nil, ErrForged
	}
	c.received++
	return message.Bytes(), nil
}

// unexpected converts the end of the stream inside a frame to an error.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
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
