package hccl

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// The handshake: both sides prove with fixed-size messages that they know the secret before
// anything else is read.
//
//	hub     magic, nonce
//	member  magic, nonce, rank, size, budget, HMAC("member", both nonces, rank, size, budget)
//	hub     answer, HMAC("hub", both nonces, answer)
const (
	magic     = "CANNHG01"
	nonceSize = 32
	helloSize = len(magic) + nonceSize + 4 + 4 + 8 + sha256.Size
)

// answers of the hub.
const (
	welcome byte = iota + 1
	sizeDiffers
	rankTaken
	rankBeyond
	secretDiffers // not authenticated: the hub does not know to whom it speaks
)

var (
	errNotRendezvous = errors.New("what listens there is no rendezvous of this package")
	errSecret        = errors.New("the job's secret differs; does another job use this port?")
	errSizeDiffers   = errors.New("rank 0 has another number of ranks")
	errRankTaken     = errors.New("another process has this rank")
	errRankBeyond    = errors.New("rank 0 has no such rank")
)

var answers = map[byte]error{
	welcome: nil, sizeDiffers: errSizeDiffers, rankTaken: errRankTaken, rankBeyond: errRankBeyond, secretDiffers: errSecret,
}

// hello is what a member says of itself.
type hello struct {
	rank, size int
	budget     time.Duration // how long it waits, 0 for ever
}

func (h hello) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(h.rank))
	b = binary.BigEndian.AppendUint32(b, uint32(h.size))
	return binary.BigEndian.AppendUint64(b, uint64(h.budget))
}

// proof is an HMAC over parts of fixed sizes.
func proof(secret []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// newLink keys a connection after the handshake.
func newLink(conn net.Conn, secret, hubNonce, memberNonce []byte, isHub bool) *link {
	down := hmac.New(sha256.New, proof(secret, []byte("down"), hubNonce, memberNonce))
	up := hmac.New(sha256.New, proof(secret, []byte("up"), hubNonce, memberNonce))
	if isHub {
		return &link{conn: conn, out: down, in: up}
	}
	return &link{conn: conn, out: up, in: down}
}

// joinHub is the member's side of the handshake.
func joinHub(conn net.Conn, secret []byte, h hello) (*link, error) {
	var first [len(magic) + nonceSize]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return nil, err
	}
	if string(first[:len(magic)]) != magic {
		return nil, errNotRendezvous
	}
	theirs, mine := first[len(magic):], make([]byte, nonceSize)
	rand.Read(mine)
	self := h.bytes()
	out := append([]byte(magic), mine...)
	out = append(out, self...)
	out = append(out, proof(secret, []byte("member"), theirs, mine, self)...)
	if _, err := conn.Write(out); err != nil {
		return nil, err
	}
	var last [1 + sha256.Size]byte
	if _, err := io.ReadFull(conn, last[:]); err != nil {
		return nil, err
	}
	if last[0] != secretDiffers && !hmac.Equal(last[1:], proof(secret, []byte("hub"), theirs, mine, last[:1])) {
		return nil, errSecret
	}
	err, known := answers[last[0]]
	if !known {
		err = errNotRendezvous
	}
	if err != nil {
		return nil, err
	}
	return newLink(conn, secret, theirs, mine, false), nil
}

// applicant is a connection whose owner has proved to know the secret and waits for the
// answer.
type applicant struct {
	hello
	conn                          net.Conn
	secret, hubNonce, memberNonce []byte
}

// examine is the hub's side of the handshake up to the answer.
func examine(conn net.Conn, secret []byte) (*applicant, error) {
	mine := make([]byte, nonceSize)
	rand.Read(mine)
	if _, err := conn.Write(append([]byte(magic), mine...)); err != nil {
		return nil, err
	}
	var b [helloSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return nil, err
	}
	if string(b[:len(magic)]) != magic {
		return nil, errNotRendezvous
	}
	theirs := b[len(magic) : len(magic)+nonceSize]
	self, sum := b[len(magic)+nonceSize:helloSize-sha256.Size], b[helloSize-sha256.Size:]
	if !hmac.Equal(sum, proof(secret, []byte("member"), mine, theirs, self)) {
		var no [1 + sha256.Size]byte
		no[0] = secretDiffers
		conn.Write(no[:]) // the stranger may already be gone
		return nil, errSecret
	}
	return &applicant{
		conn: conn, secret: secret, hubNonce: mine, memberNonce: theirs,
		hello: hello{
			rank: int(binary.BigEndian.Uint32(self)), size: int(binary.BigEndian.Uint32(self[4:])),
			budget: time.Duration(max(0, int64(binary.BigEndian.Uint64(self[8:])))),
		},
	}, nil
}

// answer ends the handshake.
func (a *applicant) answer(code byte) (*link, error) {
	out := append([]byte{code}, proof(a.secret, []byte("hub"), a.hubNonce, a.memberNonce, []byte{code})...)
	if _, err := a.conn.Write(out); err != nil {
		return nil, err
	}
	if err := answers[code]; err != nil {
		return nil, err
	}
	return newLink(a.conn, a.secret, a.hubNonce, a.memberNonce, true), nil
}
