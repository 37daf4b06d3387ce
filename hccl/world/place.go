package world

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/goascend/cann/internal/class"
)

// Place describes which rank of a job a process is, and where the rendezvous of the job is. Detect
// fills it from the launcher's environment; a program with a launcher of its own fills it by
// hand.
type Place struct {
	Rank, Size int

	// LocalRank is the number of this rank on its host, from 0. LocalSize is the number of ranks on
	// the host, or 0 if the launcher does not set it.
	LocalRank, LocalSize int

	// Device is the logical device of this rank, for acl.Runtime.Device.
	Device int

	// Address is the host:port where rank 0 listens for the others. It may be empty in a job of one
	// rank.
	Address string

	// Secret is known only to the ranks of the job; it keeps other programs out of the job, and from
	// reading what the ranks exchange. Use a long random text. Without it, the rendezvous is on the loopback
	// only, with a secret derived from Job: that separates jobs that use the same port by accident,
	// but does not keep out other users of the host.
	Secret string

	// Open lets ranks without a Secret use an address that other hosts can reach. Any program there
	// can take part in the job, and change or end it.
	Open bool

	// Job is the launcher's identifier of the job, equal on all ranks. It may be empty.
	Job string

	// Launcher names the source of the values, for errors and logs.
	Launcher string

	// Table is the rank table in RANK_TABLE_FILE, nil if there is none.
	Table *RankTable
}

// Causes of errors about a Place, for errors.Is.
var (
	ErrNoLauncher  = class.Of(class.ErrInvalidArgument, "no launcher has set its variables")
	ErrEnvironment = class.Of(class.ErrInvalidArgument, "the launcher's variables are incomplete or contradict each other")
	ErrNoSecret    = class.Of(class.ErrInvalidArgument, "ranks that other hosts can reach need a secret")
	ErrPlace       = class.Of(class.ErrInvalidArgument, "impossible place in a job")
)

// Alone returns the place of a program that runs without a launcher: rank 0 of 1 on device 0.
func Alone() Place { return Place{Size: 1, LocalSize: 1, Launcher: "none"} }

// Detect reads the environment of the process. It is DetectFrom(os.LookupEnv).
func Detect() (Place, error) { return DetectFrom(os.LookupEnv) }

// Check refuses a place whose numbers contradict each other, or whose ranks have no rendezvous. The
// error is ErrPlace.
func (p Place) Check() error {
	switch {
	case p.Size < 1:
		return fmt.Errorf("world: %w: size %d; a job has at least one rank", ErrPlace, p.Size)
	case p.Rank < 0 || p.Rank >= p.Size:
		return fmt.Errorf("world: %w: rank %d of %d; ranks run from 0 to %d", ErrPlace, p.Rank, p.Size, p.Size-1)
	case p.LocalSize < 0 || p.LocalSize > p.Size:
		return fmt.Errorf("world: %w: %d ranks on this host, of %d in all", ErrPlace, p.LocalSize, p.Size)
	case p.LocalRank < 0 || p.LocalSize > 0 && p.LocalRank >= p.LocalSize:
		return fmt.Errorf("world: %w: local rank %d of %d", ErrPlace, p.LocalRank, p.LocalSize)
	case p.Device < 0:
		return fmt.Errorf("world: %w: device %d", ErrPlace, p.Device)
	case p.Size == 1:
		return nil
	}
	if _, _, err := net.SplitHostPort(p.Address); err != nil {
		return fmt.Errorf("world: %w: address %q is not host:port (%v)", ErrPlace, p.Address, err)
	}
	if p.Table != nil && p.Table.Size() != p.Size {
		return fmt.Errorf("world: %w: size %d, but the rank table %s lists %d ranks", ErrPlace, p.Size, p.Table.Path, p.Table.Size())
	}
	return nil
}

// String describes the place for logs without the secret.
func (p Place) String() string {
	s := fmt.Sprintf("rank %d of %d, device %d", p.Rank, p.Size, p.Device)
	if p.Address != "" {
		s += ", meeting at " + p.Address
	}
	return s + " (" + p.Launcher + ")"
}

// GoString keeps the secret out of %#v.
func (p Place) GoString() string { return "world.Place{" + p.String() + "}" }

// EnvError names the variables that prevent Detect from finding a place. It matches ErrNoLauncher
// or ErrEnvironment.
type EnvError struct {
	Launcher string   // the launcher with the variables; empty when no launcher was found
	Names    []string // the variables at fault
	Detail   string
	Err      error
}

func (e *EnvError) Error() string {
	s := fmt.Sprintf("world: %v", e.Err)
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

// Unwrap returns the cause for errors.Is and errors.As.
func (e *EnvError) Unwrap() error { return e.Err }
