package world

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"context"

	"github.com/goascend/cann/internal/class"
)

// RankTable is the cluster description that HcclCommInitClusterInfo reads: it maps ranks to devices
// and servers. Versions 1.0 and 1.2 (super-pods) are supported; version 2.0 and the template with
// group_list are refused with an error that names them.
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

// RankDevice is the device of one rank. ID is the physical number of the device on its server, not
// the logical number that package acl takes; see Place.Device.
type RankDevice struct {
	ID            int
	Rank          int
	IP            []netip.Addr // of the network card; may be empty in a table of one server
	Port          int          // 0 when not given, like the other ports
	HostPort      int
	SuperDeviceID string // version 1.2
	BackupIP      []netip.Addr
	BackupPort    int
}

// SuperPod lists servers that share one high-speed fabric.
type SuperPod struct {
	ID      string
	Servers []string // RankServer.ID
}

type place struct{ server, device int }

// Causes of a *TableError, for errors.Is.
var (
	ErrRankTable = class.Of(class.ErrInvalidArgument, "malformed rank table")
	// ErrTableInitializing is the error of a table whose status is not yet "completed": the pods of the job
	// are still being started. WaitRankTable waits for it.
	ErrTableInitializing = class.Of(class.ErrBusy, "the rank table is not complete yet")
)

// TableError is a fault in a rank table, with its position.
type TableError struct {
	Path         string
	Line, Column int    // from 1, the column in bytes; 0 when the fault has no position
	Field        string // such as "server_list[1].device[0].rank_id"
	Detail       string
	Err          error
}

func (e *TableError) Error() string {
	s := "world: "
	if e.Path != "" {
		s += e.Path + ":"
	}
	if e.Line > 0 {
		s += fmt.Sprintf("%d:%d:", e.Line, e.Column)
	}
	if s[len(s)-1] == ':' {
		s += " "
	}
	s += fmt.Sprint(e.Err)
	if e.Field != "" {
		s += ": " + e.Field
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the cause for errors.Is and errors.As.
func (e *TableError) Unwrap() error { return e.Err }

// maxTable limits the size of the file: a table of 32768 ranks has about ten megabytes.
const maxTable = 64 << 20

// ReadRankTable reads a rank table file. Faults in its text are reported as *TableError.
func ReadRankTable(path string) (*RankTable, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("world: rank table: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err != nil {
		return nil, fmt.Errorf("world: rank table: %w", err)
	}
	if len(data) > maxTable {
		return nil, &TableError{Path: path, Detail: fmt.Sprintf("larger than %d MiB", maxTable>>20), Err: ErrRankTable}
	}
	return parseRankTable(path, data)
}

// ParseRankTable reads a rank table from memory. It refuses unknown keys, repeated keys, numbers
// that are not written as strings, and ranks that do not run from 0 without gaps.
func ParseRankTable(data []byte) (*RankTable, error) { return parseRankTable("", data) }

// tablePoll is the polling interval of WaitRankTable: the file appears in a shared folder or a
// mounted ConfigMap, neither of which notifies of changes.
const tablePoll = 200 * time.Millisecond

// WaitRankTable reads a file until its status is "completed" or ctx is done. It also waits for a
// file that does not exist yet; any other fault ends the wait.
func WaitRankTable(ctx context.Context, path string) (*RankTable, error) {
	if ctx == nil {
		return nil, fmt.Errorf("world: rank table: %w: the context.Context", ErrNil)
	}
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

// Size returns the number of ranks in the table.
func (t *RankTable) Size() int {
	if t == nil {
		return 0
	}
	return len(t.at)
}

// Device returns the server and device of a rank. ok is false if the table has no such rank.
func (t *RankTable) Device(rank int) (s *RankServer, d *RankDevice, ok bool) {
	if rank < 0 || rank >= t.Size() {
		return nil, nil, false
	}
	at := t.at[rank]
	s = &t.Servers[at.server]
	return s, &s.Devices[at.device], true
}

// host returns the address by which other servers reach this one.
func (s *RankServer) host() string {
	switch {
	case s.ContainerIP.IsValid():
		return s.ContainerIP.String()
	case s.HostIP.IsValid():
		return s.HostIP.String()
	}
	return s.ID
}
