package hccl

import (
	"github.com/goascend/cann/internal/abi"
)

// SetDeterminism sets the determinism of communicators that this process makes from now on without
// a Config.Determinism (HcclSetConfig). HCCL has one such setting per process; the one of a single
// communicator is Config.Determinism. HCCL ignores it where HCCL_DETERMINISTIC is set. Strict
// works on Atlas A2 only; other chips refuse it with acl.ErrNotSupported. HCCL of 2026 lacks this
// setting and returns acl.ErrNotSupported for every value; use Config.Determinism there.
func SetDeterminism(d Determinism) error {
	if d == DeterminismUnset || d > Strict {
		return failed(fnHcclSetConfig.Name(), 0, 1, invalid("determinism %d; NotDeterministic, Deterministic and Strict are possible", d))
	}
	if err := hcclSetConfig(0, abi.HCCL_DETERMINISTIC, hcclConfigValue(d-1)); err != nil {
		return failed(fnHcclSetConfig.Name(), 0, 1, err)
	}
	return nil
}

// ProcessDeterminism returns the value set by SetDeterminism, or HCCL's default (HcclGetConfig).
func ProcessDeterminism() (Determinism, error) {
	value, err := hcclGetConfig(0, abi.HCCL_DETERMINISTIC)
	if err != nil {
		return DeterminismUnset, failed(fnHcclGetConfig.Name(), 0, 1, err)
	}
	return Determinism(value) + 1, nil
}
