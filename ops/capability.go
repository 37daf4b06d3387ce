package ops

import (
	"fmt"

	"github.com/goascend/cann/aclnn"
)

// Refusal says why something is not supported and what to do instead. Rule names the table entry
// that it comes from, for messages and tests.
type Refusal struct{ Rule, Reason, Remedy string }

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s; %s", r.Rule, r.Reason, r.Remedy) }

// available returns nil if this CANN has the operator, or else a short error, which is listed with
// those of other kernels.
func available(p aclnn.Params) error {
	if err := p.Operator().Available(); err != nil {
		return fmt.Errorf("this CANN has no %s (%s)", p.Operator().Symbol, p.Operator().From())
	}
	return nil
}

// has makes a Supports function that requires aclnn operators only.
func has[K comparable](params ...aclnn.Params) func(*Env, K) error {
	return func(*Env, K) error { return availableAll(params...) }
}

// trains makes a Supports function that requires a chip with training operators and this operator.
func trains[K comparable](p aclnn.Params) func(*Env, K) error {
	return func(env *Env, _ K) error { return env.Has(p) }
}

func availableAll(params ...aclnn.Params) error {
	for _, p := range params {
		if err := available(p); err != nil {
			return err
		}
	}
	return nil
}

// older reports whether this CANN is one before the open sources of 2025, such as 8.1, whose
// kernels take fewer combinations of dtypes. An operator that came with them shows it, because
// version texts differ among vendors' packages.
func older() bool { return available(&aclnn.GroupedMatmulV5Params{}) != nil }

// is16 reports whether a dtype is a 16-bit float.
func is16(dt aclnn.DType) bool { return dt == aclnn.Float16 || dt == aclnn.BFloat16 }
