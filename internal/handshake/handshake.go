package handshake

import (
	"context"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// Sizes of the handshake. The dialing side does not introduce itself before the listener has proved
// that it knows the secret. Each side makes a key of X25519 for the connection. Each proof is an
// HMAC-SHA256 over the role, the protocol and both public keys, which are never used again and so
// serve as nonces. The keys of the connection come from the secret, the public keys and the number
// on which the key exchange agrees, so they are unknown even to someone who learns the secret later.
//
//	dialer    protocol, public key, ticket
//	listener  protocol, public key, proof; zeros for both when the ticket is wrong
//	dialer    proof, or zeros when the listener's is wrong; then its hello as a message
//
// The ticket is a proof over the dialer's key alone. It proves little, because who has heard one can
// repeat it, but a listener that thousands of strangers dial computes a key only for those who have one.
const (
	protocolSize = 8
	publicSize   = 32
	opening      = protocolSize + publicSize + sha256.Size
)

// Limit is the maximum time for a handshake, including the dial.
const Limit = 10 * time.Second

// answerLimit is the maximum time for a handshake at the listener. A peer needs two round trips.
const answerLimit = 5 * time.Second

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
	secret           []byte
	dialer, listener [publicSize]byte
}

// newTranscript checks the length of a protocol's name; a wrong one is a mistake in the program.
func newTranscript(protocol string, secret []byte) (*transcript, error) {
	if len(protocol) != protocolSize {
		return nil, fmt.Errorf("handshake: protocol %q does not have %d bytes", protocol, protocolSize)
	}
	return &transcript{protocol: protocol, secret: secret}, nil
}

// proof returns the proof that a side knows the secret, for one role in this handshake. All parts
// but the last have fixed sizes, so two different handshakes never authenticate the same text.
func (t *transcript) proof(role string) []byte {
	h := hmac.New(sha256.New, t.secret)
	h.Write([]byte(t.protocol))
	h.Write(t.dialer[:])
	h.Write(t.listener[:])
	h.Write([]byte(role))
	return h.Sum(nil)
}

// key returns the key of a direction, from the number that the key exchange agreed on.
func (t *transcript) key(agreed []byte, direction string) []byte {
	h := hmac.New(sha256.New, t.proof(direction))
	h.Write(agreed)
	return h.Sum(nil)
}

// newKey makes the key of this side and stores its public part.
func newKey(public *[publicSize]byte) (*ecdh.PrivateKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err == nil {
		copy(public[:], key.PublicKey().Bytes())
	}
	return key, err
}

// agree returns the number that both sides compute from their key and the public key of the other.
func agree(own *ecdh.PrivateKey, other *[publicSize]byte) ([]byte, error) {
	public, err := ecdh.X25519().NewPublicKey(other[:])
	if err != nil {
		return nil, err
	}
	return own.ECDH(public) // refuses public keys with which the result is known beforehand
}

// readOpening reads the protocol and, if the protocol is right, the public key and a proof.
func (t *transcript) readOpening(conn net.Conn, public *[publicSize]byte) (proof [sha256.Size]byte, err error) {
	var b [opening]byte
	if _, err := io.ReadFull(conn, b[:protocolSize]); err != nil {
		return proof, err
	}
	if string(b[:protocolSize]) != t.protocol {
		return proof, ErrProtocol
	}
	if _, err := io.ReadFull(conn, b[protocolSize:]); err != nil {
		return proof, unexpected(err)
	}
	copy(public[:], b[protocolSize:])
	copy(proof[:], b[protocolSize+publicSize:])
	return proof, nil
}

// writeOpening writes the protocol, the public key and the proof for a role.
func (t *transcript) writeOpening(conn net.Conn, public *[publicSize]byte, role string) error {
	_, err := conn.Write(slices.Concat([]byte(t.protocol), public[:], t.proof(role)))
	return err
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
	t, err := newTranscript(protocol, secret)
	if err != nil {
		return nil, err
	}
	if len(hello) > MaxHello {
		return nil, &SizeError{Size: uint64(len(hello)), Limit: MaxHello}
	}
	defer bound(ctx, conn, time.Now().Add(Limit))()
	own, err := newKey(&t.dialer)
	if err != nil {
		return nil, err
	}
	if err := t.writeOpening(conn, &t.dialer, "ticket"); err != nil {
		return nil, err
	}
	got, err := t.readOpening(conn, &t.listener)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(got[:], t.proof("listener")) {
		_, _ = conn.Write(make([]byte, sha256.Size)) // the other side may be gone already
		return nil, ErrSecret
	}
	if _, err := conn.Write(t.proof("dialer")); err != nil {
		return nil, err
	}
	agreed, err := agree(own, &t.listener)
	if err != nil {
		return nil, err
	}
	c := newConn(conn, t, agreed, false)
	return c, c.Send(hello)
}

// server is the listening side of the handshake. It calls opened when the other side has sent a right
// opening.
func server(ctx context.Context, conn net.Conn, protocol string, secret []byte, opened func()) (*Conn, error) {
	t, err := newTranscript(protocol, secret)
	if err != nil {
		return nil, err
	}
	defer bound(ctx, conn, time.Now().Add(answerLimit))()
	got, err := t.readOpening(conn, &t.dialer)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(got[:], t.proof("ticket")) {
		_, _ = conn.Write(append([]byte(protocol), make([]byte, opening-protocolSize)...)) // so that the other side knows why
		return nil, ErrSecret
	}
	opened()
	own, err := newKey(&t.listener)
	if err != nil {
		return nil, err
	}
	if err := t.writeOpening(conn, &t.listener, "listener"); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return nil, unexpected(err)
	}
	if !hmac.Equal(got[:], t.proof("dialer")) {
		return nil, ErrSecret
	}
	agreed, err := agree(own, &t.dialer)
	if err != nil {
		return nil, err
	}
	c := newConn(conn, t, agreed, true)
	c.hello, err = c.Receive(MaxHello)
	return c, err
}
