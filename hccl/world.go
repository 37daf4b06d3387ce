package hccl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// World is one rank's place in a job, and where the job's ranks meet. DetectWorld fills it
// from the launcher's environment; a program with a launcher of its own fills it by hand.
type World struct {
	Rank, Size int

	// LocalRank counts the ranks of this host, LocalSize is how many there are, 0 when the
	// launcher does not say.
	LocalRank, LocalSize int

	// Device is the logical device of this rank, for acl.Runtime.Device.
	Device int

	// Address is where rank 0 listens for the others: host:port. Empty in a world of one.
	Address string

	// Secret is what the ranks of a job know and strangers do not. When empty it is derived
	// from Job: that keeps jobs apart that meet by accident on one port, and keeps nobody out
	// who wants in. Set it where others can reach the port.
	Secret string

	// Job is the launcher's identity of the job, equal on all ranks. It may be empty.
	Job string

	// Launcher names where the values come from, for errors and logs.
	Launcher string

	// Table is the rank table of RANK_TABLE_FILE, nil when there is none.
	Table *RankTable
}

// Causes of errors about a World, for errors.Is.
var (
	ErrNoLauncher  = errors.New("no launcher has set its variables")
	ErrEnvironment = errors.New("the launcher's variables are incomplete or contradict each other")
	ErrWorld       = errors.New("impossible world")
)

// Alone is the world of a program that runs without a launcher: rank 0 of 1 on device 0.
func Alone() World { return World{Size: 1, LocalSize: 1, Launcher: "none"} }

// DetectWorld reads the environment of the process. It is WorldFrom(os.LookupEnv).
func DetectWorld() (World, error) { return WorldFrom(os.LookupEnv) }

// Check refuses a world in which ranks could not meet.
func (w World) Check() error {
	switch {
	case w.Size < 1:
		return fmt.Errorf("hccl: %w: size %d; a job has at least one rank", ErrWorld, w.Size)
	case w.Rank < 0 || w.Rank >= w.Size:
		return fmt.Errorf("hccl: %w: rank %d of %d; ranks run from 0 to %d", ErrWorld, w.Rank, w.Size, w.Size-1)
	case w.LocalSize < 0 || w.LocalSize > w.Size:
		return fmt.Errorf("hccl: %w: %d ranks on this host, of %d in all", ErrWorld, w.LocalSize, w.Size)
	case w.LocalRank < 0 || w.LocalSize > 0 && w.LocalRank >= w.LocalSize:
		return fmt.Errorf("hccl: %w: local rank %d of %d", ErrWorld, w.LocalRank, w.LocalSize)
	case w.Device < 0:
		return fmt.Errorf("hccl: %w: device %d", ErrWorld, w.Device)
	case w.Size == 1:
		return nil
	}
	if _, _, err := net.SplitHostPort(w.Address); err != nil {
		return fmt.Errorf("hccl: %w: address %q is not host:port (%v)", ErrWorld, w.Address, err)
	}
	if w.Table != nil && w.Table.Size() != w.Size {
		return fmt.Errorf("hccl: %w: size %d, but the rank table %s lists %d ranks", ErrWorld, w.Size, w.Table.Path, w.Table.Size())
	}
	return nil
}

// String is for logs; it does not show the secret.
func (w World) String() string {
	s := fmt.Sprintf("rank %d of %d, device %d", w.Rank, w.Size, w.Device)
	if w.Address != "" {
		s += ", meeting at " + w.Address
	}
	return s + " (" + w.Launcher + ")"
}

// GoString keeps the secret out of %#v.
func (w World) GoString() string { return "hccl.World{" + w.String() + "}" }

// EnvError names the variables that keep a world from being read. It is ErrNoLauncher or
// ErrEnvironment.
type EnvError struct {
	Launcher string   // whose variables they are, empty when no launcher was found
	Names    []string // the variables at fault
	Detail   string
	Err      error
}

func (e *EnvError) Error() string {
	s := "hccl: " + e.Err.Error()
	if e.Launcher != "" {
		s += ": " + e.Launcher
	}
	if len(e.Names) > 0 {
		s += ": " + strings.Join(e.Names, ", ")
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *EnvError) Unwrap() error { return e.Err }
