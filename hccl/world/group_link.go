package world

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/goascend/cann/internal/handshake"
)

// send writes a message. The body is not copied, because it may be large and go to many ranks.
func send(c *handshake.Conn, m *message) error {
	return c.Send(m.appendHead(make([]byte, 0, 64+len(m.label))), m.body)
}

// receive reads a message whose body has at most limit bytes.
func receive(c *handshake.Conn, limit int) (*message, error) {
	b, err := c.Receive(limit + maxMessageHead)
	if err != nil {
		return nil, err
	}
	return parseMessage(b)
}

// kind is the role of a message in a call.
type kind uint8

const (
	contribution kind = iota + 1 // member to hub
	result                       // hub to member
	abort                        // hub to member: the group is broken; label is the text
	failure                      // like contribution or result; label is the text
	goodbye                      // the sender has closed the group and sends nothing more
)

// message is the unit of communication between ranks.
type message struct {
	kind   kind
	cause  uint8         // of abort and failure: index of wireCauses
	call   uint64        // number of the call in the group
	budget time.Duration // how long the sender waits, 0 for no limit
	label  string        // what the sender is doing, or why it failed
	ranks  []int         // of abort and failure: the ranks at fault
	body   []byte
}

const (
	maxLabel       = 4 << 10
	maxMessageHead = 1 + 1 + 8 + 8 + 2 + maxLabel + 4 + 4*maxBlamed
	maxBlamed      = 1 << 10
)

// appendHead encodes everything except the body.
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
	if m.kind < contribution || m.kind > goodbye || int(m.cause) >= len(wireCauses) || m.budget < 0 || n > maxLabel || len(b) < n+4 {
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

// packList concatenates bodies, each preceded by its length.
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

// unpackList splits a list made by packList into n parts.
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
