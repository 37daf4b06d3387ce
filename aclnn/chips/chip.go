package chips

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/abi/soc"
)

// Chip describes a kind of NPU by CANN's platform files.
type Chip struct {
	Name          string // as aclrtGetSocName returns it
	CubeCores     int
	VectorCores   int
	Megahertz     int
	L2            int // bytes
	Memory        int // bytes
	UnifiedBuffer int // bytes of a vector core
	BFloat16      bool
	WaitsAcross   bool // streams can wait for events of other devices
}

// Names returns the names of the chips, sorted.
func Names() []string { return soc.Names() }

// Named returns the chip of a name. The error of an unknown name lists those that are known.
func Named(name string) (Chip, error) {
	c, err := soc.Named(name)
	if err != nil {
		return Chip{}, err
	}
	return Chip{name, int(c.Cube), int(c.Vector), int(c.Megahertz), int(c.L2), int(c.Memory), int(c.UnifiedBuffer), c.BFloat16, c.WaitsAcross}, nil
}

// Operator describes the arguments that a chip's form of an operator takes.
type Operator struct {
	Missing bool // the chip refuses every call
	// Types has, by C parameter, the element types that no rule refuses whatever the other arguments
	// are. Tensors whose types no rule limits are not in it.
	Types map[string][]aclnn.DType
}

// Operators returns the names, without aclnn, of the operators whose sources are public or that some chip
// lacks, sorted.
func Operators() []string { return acceptance.Names() }

// Operator returns what the chip's form of an operator takes. public is false if the operator's sources
// are not public; then it is known at most that the chip lacks the operator. It is false, too, for a chip whose name
// belongs to no group of chips that the sources distinguish.
func (c Chip) Operator(name string) (o Operator, public bool) {
	group := acceptance.ChipOf(c.Name)
	if group == 0 {
		return o, false // a chip that Named does not know
	}
	types, missing, err := acceptance.Types(name, group)
	if err != nil {
		return o, false // the tables are tested
	}
	_, public = acceptance.SourceOf(name)
	return Operator{missing, types}, public
}
