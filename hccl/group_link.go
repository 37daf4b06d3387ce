package hccl

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

// link is a connection between two ranks that have proved to know the job's secret. Each
// frame is authenticated with a key of the connection and its direction and a count, so that
// nothing is parsed that a stranger has slipped in or repeated. Nothing is encrypted.
//
// A frame: length of the message, big endian, 8 bytes; the message; HMAC-SHA256, 32 bytes.
type link struct {
	conn      net.Conn
	out, in   hash.Hash
	sent, got uint64
}

var errForged = errors.New("a frame is not from the peer")

// limitError is a frame that exceeds what its reader is willing to take.
type limitError struct {
	size  uint64
	limit int
}

func (e *limitError) Error() string {
	return fmt.Sprintf("%d bytes announced, at most %d allowed", e.size, e.limit)
}

// mac authenticates the pieces of a message.
func mac(h hash.Hash, count uint64, pieces ...[]byte) []byte {
	h.Reset()
	var c [8]byte
	binary.BigEndian.PutUint64(c[:], count)
	h.Write(c[:])
	for _, p := range pieces {
		h.Write(p)
	}
	return h.Sum(nil)
}

// send writes a message. The body may be large and go to many ranks: it is not copied.
func (l *link) send(m *message) error {
	head := m.appendHead(make([]byte, 8, 64+len(m.label)))
	binary.BigEndian.PutUint64(head, uint64(len(head)-8+len(m.body)))
	frame := net.Buffers{head, m.body, mac(l.out, l.sent, head[8:], m.body)}
	l.sent++
	_, err := frame.WriteTo(l.conn)
	return err
}

// receive reads a message whose body has at most limit bytes.
func (l *link) receive(limit int) (*message, error) {
	var head [8]byte
	if _, err := io.ReadFull(l.conn, head[:]); err != nil {
		return nil, err
	}
	n, limit := binary.BigEndian.Uint64(head[:]), limit+maxMessageHead
	if n > uint64(limit) {
		return nil, &limitError{size: n, limit: limit}
	}
	// The buffer grows with what arrives, not with what is announced.
	var data bytes.Buffer
	if _, err := io.CopyN(&data, l.conn, int64(n)); err != nil {
		return nil, err
	}
	var sum [sha256.Size]byte
	if _, err := io.ReadFull(l.conn, sum[:]); err != nil {
		return nil, err
	}
	if !hmac.Equal(sum[:], mac(l.in, l.got, data.Bytes())) {
		return nil, errForged
	}
	l.got++
	return parseMessage(data.Bytes())
}

// bound makes reads and writes end when ctx does, at the latest at limit when that is not
// zero. The caller calls release afterwards.
func (l *link) bound(ctx context.Context, limit time.Time) (release func()) {
	if d, ok := ctx.Deadline(); ok && (limit.IsZero() || d.Before(limit)) {
		limit = d
	}
	l.conn.SetDeadline(limit)
	return endWith(ctx, l.conn)
}

// endWith makes reads and writes fail when ctx ends, until release is called: after that ctx
// has no hold on the connection, even if it has just ended.
func endWith(ctx context.Context, conn net.Conn) (release func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

// kind is the role of a message in a call.
type kind uint8

const (
	contribution kind = iota + 1 // member to hub
	result                       // hub to member
	abort                        // hub to member: the group is broken; label is the text
	failure                      // like contribution or result; label is the text
)

// message is what ranks say to each other.
type message struct {
	kind   kind
	cause  uint8         // of abort and failure: index of wireCauses
	call   uint64        // number of the call in the group
	budget time.Duration // how long the sender waits, 0 for ever
	label  string        // what the sender is doing, or why it failed
	ranks  []int         // of abort and failure: to blame
	body   []byte
}

const (
	maxLabel       = 4 << 10
	maxMessageHead = 1 + 1 + 8 + 8 + 2 + maxLabel + 4 + 4*maxBlamed
	maxBlamed      = 1 << 10
)

// appendHead writes everything but the body.
func (m *message) appendHead(b []byte) []byte {
	label := m.label[:min(len(m.label), maxLabel)]
	ranks := m.ranks[:min(len(m.ranks), maxBlamed)]
	b = append(b, byte(m.kind), m.cause)
	b = binary.BigEndian.AppendUint64(b, m.call)
	b = binary.BigEndian.AppendUint64(b, uint64(m.budget))
	b = binary.BigEndian.AppendUint16(b, uint16(len(label)))
	b = append(b, label...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(ranks)))
	for _, r := range ranks {
		b = binary.BigEndian.AppendUint32(b, uint32(r))
	}
	return b
}

var errMessage = errors.New("malformed message")

func parseMessage(b []byte) (*message, error) {
	const fixed = 1 + 1 + 8 + 8 + 2
	if len(b) < fixed {
		return nil, errMessage
	}
	m := &message{
		kind: kind(b[0]), cause: b[1],
		call:   binary.BigEndian.Uint64(b[2:]),
		budget: time.Duration(binary.BigEndian.Uint64(b[10:])),
	}
	n := int(binary.BigEndian.Uint16(b[18:]))
	b = b[fixed:]
	if m.kind < contribution || m.kind > failure || int(m.cause) >= len(wireCauses) || m.budget < 0 || n > maxLabel || len(b) < n+4 {
		return nil, errMessage
	}
	m.label, b = string(b[:n]), b[n:]
	n, b = int(binary.BigEndian.Uint32(b)), b[4:]
	if n > maxBlamed || len(b) < 4*n {
		return nil, errMessage
	}
	for range n {
		m.ranks, b = append(m.ranks, int(binary.BigEndian.Uint32(b))), b[4:]
	}
	m.body = b
	return m, nil
}

// packList joins bodies, each behind its length.
func packList(bodies [][]byte) []byte {
	n := 0
	for _, b := range bodies {
		n += 4 + len(b)
	}
	out := make([]byte, 0, n)
	for _, b := range bodies {
		out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
		out = append(out, b...)
	}
	return out
}

// unpackList splits what packList has joined, into n parts.
func unpackList(b []byte, n int) ([][]byte, error) {
	out := make([][]byte, n)
	for i := range out {
		if len(b) < 4 {
			return nil, errMessage
		}
		size := int(binary.BigEndian.Uint32(b))
		if b = b[4:]; len(b) < size {
			return nil, errMessage
		}
		out[i], b = b[:size:size], b[size:]
	}
	if len(b) > 0 {
		return nil, errMessage
	}
	return out, nil
}
