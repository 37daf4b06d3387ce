package handshake

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"time"
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

// The roles of the two ends: each has a key of its own, so that neither can be played by the other's.
const (
	dials   = "dialer"
	listens = "listener"
)

// identity holds the TLS configuration and the ticket of one end of a protocol's connections.
type identity struct {
	protocol, ticket string
	config           *tls.Config
}

// newIdentity derives from the secret, by HKDF, the Ed25519 keys of both roles and the ticket. The certificate of a
// role is only the form in which TLS carries the key: it is compared with the key that the secret gives.
func newIdentity(protocol string, secret []byte, role, peer string) (*identity, error) {
	derive := func(purpose string, size int) ([]byte, error) {
		return hkdf.Key(sha256.New, secret, nil, protocol+" "+purpose, size)
	}
	own, err := derive(role, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	theirs, err := derive(peer, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	ticket, err := derive("ticket", 16)
	if err != nil {
		return nil, err
	}
	key, expected := ed25519.NewKeyFromSeed(own), ed25519.NewKeyFromSeed(theirs).Public().(ed25519.PublicKey)
	form := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, err
	}
	i := &identity{protocol: protocol, ticket: hex.EncodeToString(ticket)}
	i.config = &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		CurvePreferences:            []tls.CurveID{tls.X25519}, // half of the time of a handshake, where thousands of ranks join
		NextProtos:                  []string{protocol},
		Certificates:                []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		ClientAuth:                  tls.RequireAnyClientCert,
		InsecureSkipVerify:          true, // of names and issuers; VerifyConnection compares the key
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if public, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !public.Equal(expected) {
				return ErrSecret
			}
			return nil
		},
	}
	return i, nil
}

// invited checks the opening of a dialing side, which names the protocol and the ticket among its application protocols.
// The ticket proves little, because who has heard one can repeat it, but a listener that thousands of strangers
// dial computes a key only for those who have one. For another protocol the answer has no version in common, so that the
// dialing side gets another alert than for another secret.
func (i *identity) invited(h *tls.ClientHelloInfo) (*tls.Config, error) {
	switch {
	case !slices.Contains(h.SupportedProtos, i.protocol):
		return &tls.Config{MaxVersion: tls.VersionTLS12}, nil
	case !slices.Contains(h.SupportedProtos, i.ticket):
		return nil, ErrSecret
	}
	return nil, nil
}

// refusedByPeer is the alert that crypto/tls sends when invited returns an error.
const refusedByPeer = tls.AlertError(80) // internal_error

// refusal finds the reason of a failed handshake: all that TLS does not understand is another program.
func refusal(err error) error {
	var op *net.OpError
	switch {
	case err == nil, errors.Is(err, ErrSecret), errors.Is(err, ErrProtocol):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return err
	case errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == refusedByPeer.Error():
		return ErrSecret
	case errors.As(err, &op) && op.Op != "remote error" && op.Op != "local error": // of the connection
		return err
	}
	return fmt.Errorf("%w: %w", ErrProtocol, err)
}

// Dial connects to a listener of the protocol and sends it hello, of at most MaxHello bytes. It fails when ctx ends, and
// after Limit at the latest.
func Dial(ctx context.Context, address, protocol string, secret, hello []byte) (*Conn, error) {
	if len(hello) > MaxHello {
		return nil, &SizeError{Size: uint64(len(hello)), Limit: MaxHello}
	}
	i, err := newIdentity(protocol, secret, dials, listens)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c, err := client(ctx, conn, i, hello)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// client is the dialing side of the handshake.
func client(ctx context.Context, conn net.Conn, i *identity, hello []byte) (*Conn, error) {
	defer bound(ctx, conn, time.Now().Add(Limit))()
	config := i.config.Clone()
	config.NextProtos = []string{i.protocol, i.ticket}
	sealed := tls.Client(conn, config)
	if err := sealed.Handshake(); err != nil {
		return nil, refusal(err)
	}
	c := newConn(conn, sealed)
	return c, c.Send(hello)
}

// server is the listening side of the handshake. It calls opened when the other side has sent a right
// opening.
func server(ctx context.Context, conn net.Conn, i *identity, opened func()) (*Conn, error) {
	defer bound(ctx, conn, time.Now().Add(answerLimit))()
	config := i.config.Clone()
	config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		other, err := i.invited(h)
		if other == nil && err == nil {
			opened()
		}
		return other, err
	}
	sealed := tls.Server(conn, config)
	if err := sealed.Handshake(); err != nil {
		return nil, refusal(err)
	}
	c := newConn(conn, sealed)
	var err error
	c.hello, err = c.Receive(MaxHello)
	return c, err
}
