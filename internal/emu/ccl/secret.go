package ccl

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// introduction is how long a connection has to prove that it knows the secret.
const introduction = 5 * time.Second

// early is the earlier of a deadline and the end of an introduction.
func early(deadline time.Time) time.Time {
	if d := time.Now().Add(introduction); d.Before(deadline) {
		return d
	}
	return deadline
}

// listenHost is where this process listens: HCCL_IF_IP, or loopback.
func listenHost() string {
	if host := os.Getenv("HCCL_IF_IP"); host != "" {
		return host
	}
	return "127.0.0.1"
}

// defaultPort is HCCL's first port when HCCL_IF_BASE_PORT does not say otherwise.
const defaultPort = 60000

func basePort() (int, error) {
	base := os.Getenv("HCCL_IF_BASE_PORT")
	if base == "" {
		return defaultPort, nil
	}
	first, err := strconv.Atoi(base)
	if err != nil || first < 1024 || first > 65520 {
		return 0, refuse(badParameter, "EI0001: HCCL_IF_BASE_PORT=%q: must be a port from 1024 to 65520", base)
	}
	return first, nil
}

// listenAnywhere opens a port for the links of a rank.
func listenAnywhere() (net.Listener, error) {
	host := listenHost()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, refuse(unavailable, "EI0019: no port on %s (HCCL_IF_IP): %v", host, err)
	}
	return listener, nil
}

// listenRoot opens a port where ranks meet. Ports are taken in order from HCCL_IF_BASE_PORT
// when that is set, else where there is one.
func listenRoot() (net.Listener, error) {
	if os.Getenv("HCCL_IF_BASE_PORT") == "" {
		return listenAnywhere()
	}
	host := listenHost()
	first, err := basePort()
	if err != nil {
		return nil, err
	}
	const ports = 32
	last := min(first+ports, 1<<16)
	for port := first; port < last; port++ {
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return listener, nil
		}
	}
	return nil, refuse(unavailable, "EI0019: ports %d to %d on %s are taken (HCCL_IF_BASE_PORT): %v", first, last-1, host, err)
}

var errStranger = errors.New("the other side does not know the root info")

const nonceSize = 32

// proof shows the knowledge of the secret in one role of one conversation.
func proof(secret []byte, role string, nonces []byte) []byte {
	m := hmac.New(sha256.New, secret)
	_, _ = m.Write([]byte(role)) // never fails
	_, _ = m.Write(nonces)
	return m.Sum(nil)
}

// asker is the side that connected: it says nothing of itself before the other has proved
// that it knows the secret.
func asker(conn net.Conn, secret []byte) error {
	nonces := make([]byte, 2*nonceSize)
	_, _ = rand.Read(nonces[:nonceSize]) // never fails
	if _, err := conn.Write(nonces[:nonceSize]); err != nil {
		return err
	}
	got := make([]byte, nonceSize+sha256.Size)
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	copy(nonces[nonceSize:], got)
	if !hmac.Equal(got[nonceSize:], proof(secret, "answer", nonces)) {
		return errStranger
	}
	_, err := conn.Write(proof(secret, "ask", nonces))
	return err
}

// answerer is the side that listens.
func answerer(conn net.Conn, secret []byte) error {
	nonces := make([]byte, 2*nonceSize)
	if _, err := io.ReadFull(conn, nonces[:nonceSize]); err != nil {
		return err
	}
	_, _ = rand.Read(nonces[nonceSize:]) // never fails
	if _, err := conn.Write(append(nonces[nonceSize:2*nonceSize:2*nonceSize], proof(secret, "answer", nonces)...)); err != nil {
		return err
	}
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !hmac.Equal(got, proof(secret, "ask", nonces)) {
		return errStranger
	}
	return nil
}

// longest is the longest JSON text of a gathering, enough for 32768 ranks.
const longest = 16 << 20

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func readJSON(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > longest {
		return fmt.Errorf("a text of %d bytes; at most %d are expected", n, longest)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
