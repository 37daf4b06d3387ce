package hccl

import (
	"fmt"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

var (
	setConfig = cshim.NewFunc(cshim.HCCL, "HcclSetConfig")
	getConfig = cshim.NewFunc(cshim.HCCL, "HcclGetConfig")
)

// SetDeterminism is the determinism of the communicators that this process makes from now on
// without a Config.Determinism. HCCL ignores it where HCCL_DETERMINISTIC is set; Strict is for
// Atlas A2, and other chips refuse it with ErrUnsupported. HCCL of 2026 has no such setting:
// there too it is ErrUnsupported, and Config.Determinism does the same (HcclSetConfig).
func SetDeterminism(d Determinism) error {
	if d == DeterminismUnset || d > Strict {
		return failed(setConfig.Name(), 0, 1, fmt.Errorf("%w: determinism %d; NotDeterministic, Deterministic and Strict are possible", ErrArgument, d))
	}
	c := cshim.Call{Args: [cshim.Args]uint64{abi.HCCL_DETERMINISTIC, uint64(d) - 1}}
	if err := c.Do(setConfig, 0); err != nil {
		return failed(setConfig.Name(), 0, 1, err)
	}
	return nil
}

// ProcessDeterminism is what SetDeterminism has set, or HCCL's default (HcclGetConfig).
func ProcessDeterminism() (Determinism, error) {
	c := cshim.Call{Args: [cshim.Args]uint64{abi.HCCL_DETERMINISTIC}, Out: 1 << 1}
	if err := c.Do(getConfig, 0); err != nil {
		return DeterminismUnset, failed(getConfig.Name(), 0, 1, err)
	}
	return Determinism(uint32(c.Args[1])) + 1, nil
}
