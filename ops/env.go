package ops

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi/soc"
)

// Parallel says how work is split among ranks, so that kernels can decide whether they fit. A size
// of 0 means 1.
type Parallel struct {
	Tensor, Sequence, Context, Expert, Pipeline int
}

// Env holds the facts besides the key of the arguments by which kernels are chosen.
type Env struct {
	SoC           string // aclrtGetSocName, such as "Ascend910B1"
	CANN          string // CANN version, "" if unknown
	UnifiedBuffer int    // bytes of Unified Buffer per vector core, 0 if package chips does not know the chip
	Parallel      Parallel

	// HF32 lets Linear and MatMul round float32 factors to HF32, which has 11 bits of fraction, as
	// much range as float32, and several times its speed: without it a 910B multiplies float32 far
	// below the rate of bfloat16. Sums stay float32. It must be set before NewRegistry.
	HF32 bool
}

// EnvOf describes a device that runs alone; set Parallel otherwise.
func EnvOf(dev *acl.Device) Env {
	rt := dev.Runtime()
	version, err := rt.CANNVersion()
	if err != nil {
		version = "" // a runtime without version files still runs kernels
	}
	chip, _ := soc.Named(rt.SoC()) // accelerates refuses a chip that is not known
	return Env{SoC: rt.SoC(), CANN: version, UnifiedBuffer: int(chip.UnifiedBuffer)}
}

// Has returns nil if this chip and this CANN have a fused operator, or else why not, for a kernel's
// Supports. Chips besides Atlas A2 and A3 have none, and an unknown chip is refused by its name.
func (e *Env) Has(p aclnn.Params) error {
	chip := e.accelerates()
	if errors.Is(chip, errOtherChip) {
		chip = fmt.Errorf("%s has no %s; Atlas A2 and A3 do", e.SoC, p.Operator().Name())
	}
	return errors.Join(chip, available(p))
}

var errOtherChip = errors.New("the chip is not an Atlas A2 or A3")

// known refuses a chip that package chips does not know, by its name. An Env may name none.
func (e *Env) known() error {
	if e.SoC == "" {
		return nil
	}
	_, err := soc.Named(e.SoC)
	return err
}

// accelerates returns nil on Atlas A2 and A3, and for an Env that names no chip.
func (e *Env) accelerates() error {
	if err := e.known(); err != nil || e.SoC == "" {
		return err
	}
	if !strings.HasPrefix(e.SoC, "Ascend910B") && !strings.HasPrefix(e.SoC, "Ascend910_93") {
		return errOtherChip
	}
	return nil
}
