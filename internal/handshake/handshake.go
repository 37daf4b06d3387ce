package handshake

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Sizes of the handshake. The dialing side does not introduce itself before the listener has proved
// that it knows the secret. Each proof is an HMAC-SHA256 over the role, the protocol and both
// nonces.
//
//	dialer    protocol, nonce
//	listener  protocol, nonce, proof
//	dialer    proof, or zeros when the listener's is wrong; then its hello as a frame
const (
	protocolSize = 8
	nonceSize    = 32
	opening      = protocolSize + nonceSize
)

// Limit is the maximum time for a handshake, including the dial.
const Limit = 10 * time.Second

// MaxHello is the maximum size in bytes of the hello of the dialing side.
const MaxHello = 1 << 12

// Errors of a handshake, in addition to those of the connection.
var (
	ErrProtocol = errors.New("the other side is another program")
	ErrSecret   = errors.New("the other side has another secret")
)

// transcript is the data that both sides know before the first proof.
type transcript struct {
	protocol         string
	dialer, listener [nonceSize]byte
}

// newTranscript checks the length of a protocol's name; a wrong one is a mistake in the program.
func newTranscript(protocol string) (*transcript, error) {
	if len(protocol) != protocolSize {
		return nil, fmt.Errorf("handshake: protocol %q does not have %d bytes", protocol, protocolSize)
	}
	return &transcript{protocol: protocol}, nil
}

// proof returns the proof that a side knows the secret, for one role in this handshake. All parts
// but the last have fixed sizes, so two different handshakes never authenticate the same text.
func (t *transcript) proof(secret []byte, role string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t.protocol))
	h.Write(t.dialer[:])
	h.Write(t.listener[:])
	h.Write([]byte(role))
	return h.Sum(nil)
}

// readOpening reads the protocol and, if the protocol is right, the nonce.
func (t *transcript) readOpening(conn net.Conn, nonce *[nonceSize]byte) error {
	var name [protocolSize]byte
	if _, err := io.ReadFull(conn, name[:]); err != nil {
		return err
	}
	if string(name[:]) != t.protocol {
		return ErrProtocol
	}
	_, err := io.ReadFull(conn, nonce[:])
	return unexpected(err)
}

// Dial connects to a listener of the protocol, whose name has 8 bytes, and sends it hello, of at
// most MaxHello bytes. It fails when ctx ends, and after Limit at the latest.
func Dial(ctx context.Context, address, protocol string, secret, hello []byte) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c, err := client(ctx, conn, protocol, secret, hello)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// client is the dialing side of the handshake.
func client(ctx context.Context, conn net.Conn, protocol string, secret, hello []byte) (*Conn, error) {
	t, err := newTranscript(protocol)
	if err != nil {
		return nil, err
	}
	if len(hello) > MaxHello {
		return nil, &SizeError{Size: uint64(len(hello)), Limit: MaxHello}
	}
	defer bound(ctx, conn, time.Now().Add(Limit))()
	_, _ = rand.Read(t.dialer[:]) // never fails
	if _, err := conn.Write(append([]byte(protocol), t.dialer[:]...)); err != nil {
		return nil, err
	}
	if err := t.readOpening(conn, &t.listener); err != nil {
		return nil, err
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return nil, unexpected(err)
	}
	if !hmac.Equal(got[:], t.proof(secret, "listener")) {
		_, _ = conn.Write(make([]byte, sha256.Size)) // the other side may be gone already
		return nil, ErrSecret
	}
	if _, err := conn.Write(t.proof(secret, "dialer")); err != nil {
		return nil, err
	}
	c := newConn(conn, secret, t, false)
	return c, c.Send(hello)
}

// server is the listening side of the handshake.
func server(ctx context.Context, conn net.Conn, protocol string, secret []byte) (*Conn, error) {
	t, err := newTranscript(protocol)
	if err != nil {
		return nil, err
	}
	defer bound(ctx, conn, time.Now().Add(Limit))()
	if err := t.readOpening(conn, &t.dialer); err != nil {
		return nil, err
	}
	_, _ = rand.Read(t.listener[:]) // never fails
	out := append([]byte(protocol), t.listener[:]...)
	if _, err := conn.Write(append(out, t.proof(secret, "listener")...)); err != nil {
		return nil, err
	}
	var got [sha256.Size]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return nil, unexpected(err)
	}
	if !hmac.Equal(got[:], t.proof(secret, "dialer")) {
		return nil, ErrSecret
	}
	c := newConn(conn, secret, t, true)
	c.hello, err = c.Receive(MaxHello)
	return c, err
}
