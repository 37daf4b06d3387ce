package hccl

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"context"
)

// RankTable is the cluster description that HcclCommInitClusterInfo reads: which device of
// which server has which rank. Versions 1.0 and 1.2 (super-pods) are read; 2.0 and the
// template with group_list are refused by name.
type RankTable struct {
	Path      string // empty when parsed from memory
	Version   string // "1.0" or "1.2"
	Servers   []RankServer
	SuperPods []SuperPod // version 1.2, may be empty

	at []place // by rank
}

// RankServer is one host.
type RankServer struct {
	ID          string     // unique, at most 64 bytes, often an address
	HostIP      netip.Addr // zero when not given
	ContainerIP netip.Addr // zero when not given
	Hardware    string     // mind-cluster's hardware_type
	Devices     []RankDevice
}

// RankDevice is one rank. ID is the physical number of the device on its server, which is
// not the logical one that acl takes, see World.Device.
type RankDevice struct {
	ID            int
	Rank          int
	IP            []netip.Addr // of the network card; may be empty in a table of one server
	Port          int          // 0 when not given, as the other ports
	HostPort      int
	SuperDeviceID string // version 1.2
	BackupIP      []netip.Addr
	BackupPort    int
}

// SuperPod names the servers that share one high-speed fabric.
type SuperPod struct {
	ID      string
	Servers []string // RankServer.ID
}

type place struct{ server, device int }

// Causes of a *TableError, for errors.Is.
var (
	ErrRankTable = errors.New("malformed rank table")
	// ErrTableInitializing is a table whose status is not yet "completed": the pods of the job
	// are still being started. WaitRankTable waits for it.
	ErrTableInitializing = errors.New("the rank table is not complete yet")
)

// TableError says where a rank table is wrong.
type TableError struct {
	Path         string
	Line, Column int    // from 1, the column in bytes; 0 when the fault has no place
	Field        string // such as "server_list[1].device[0].rank_id"
	Detail       string
	Err          error
}

func (e *TableError) Error() string {
	s := "hccl: "
	if e.Path != "" {
		s += e.Path + ":"
	}
	if e.Line > 0 {
		s += fmt.Sprintf("%d:%d:", e.Line, e.Column)
	}
	if s[len(s)-1] == ':' {
		s += " "
	}
	s += e.Err.Error()
	if e.Field != "" {
		s += ": " + e.Field
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *TableError) Unwrap() error { return e.Err }

// maxTable bounds the file: a table of 32768 ranks has some ten megabytes.
const maxTable = 64 << 20

// ReadRankTable reads a file. Errors about its text are *TableError.
func ReadRankTable(path string) (*RankTable, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("hccl: rank table: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err != nil {
		return nil, fmt.Errorf("hccl: rank table: %w", err)
	}
	if len(data) > maxTable {
		return nil, &TableError{Path: path, Detail: fmt.Sprintf("larger than %d MiB", maxTable>>20), Err: ErrRankTable}
	}
	return parseRankTable(path, data)
}

// ParseRankTable reads a table from memory. Keys that the format does not have, repeated
// keys, numbers that are not written as strings, and ranks that do not run from 0 without
// gaps are refused.
func ParseRankTable(data []byte) (*RankTable, error) { return parseRankTable("", data) }

// tablePoll is how often WaitRankTable looks: the file appears through a shared folder or a
// mounted ConfigMap, neither of which tells of changes.
const tablePoll = 200 * time.Millisecond

// WaitRankTable reads a file until its status is "completed" or ctx is done. A file that does
// not exist yet is waited for too; any other fault ends the wait.
func WaitRankTable(ctx context.Context, path string) (*RankTable, error) {
	tick := time.NewTicker(tablePoll)
	defer tick.Stop()
	for {
		t, err := ReadRankTable(path)
		if err == nil || !errors.Is(err, ErrTableInitializing) && !errors.Is(err, os.ErrNotExist) {
			return t, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Size is how many ranks the table lists.
func (t *RankTable) Size() int { return len(t.at) }

// Device finds a rank's server and device. ok is false when the table has no such rank.
func (t *RankTable) Device(rank int) (s *RankServer, d *RankDevice, ok bool) {
	if rank < 0 || rank >= len(t.at) {
		return nil, nil, false
	}
	at := t.at[rank]
	s = &t.Servers[at.server]
	return s, &s.Devices[at.device], true
}

// host is the address under which other servers reach this one.
func (s *RankServer) host() string {
	switch {
	case s.ContainerIP.IsValid():
		return s.ContainerIP.String()
	case s.HostIP.IsValid():
		return s.HostIP.String()
	}
	return s.ID
}
