package ccl

import (
	"encoding/json"

	"github.com/goascend/cann/internal/handshake"
)

// protocol identifies connections between ranks to package handshake.
const protocol = "cann/emulator/5"

// Variables of package hccl/world that apply to rank tables here: the job's secret, and the consent to
// go without one.
const (
	jobSecret = "CANN_JOB_SECRET"
	jobOpen   = "CANN_JOB_OPEN"
)

// longest is the maximum size in bytes of the JSON texts that ranks exchange while they
// connect, enough for a list of 32768 peers.
const longest = 16 << 20

// send writes v as JSON, which ranks exchange before they have links.
func send(conn *handshake.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return conn.Send(b)
}

// receive reads a JSON value that another rank has sent into v.
func receive(conn *handshake.Conn, v any) error {
	b, err := conn.Receive(longest)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
