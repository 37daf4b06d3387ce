package ops

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/aclnn"
)

// Refusal says why something is not supported and what to do instead. Rule names the entry
// of the table it comes from, for messages and tests.
type Refusal struct{ Rule, Reason, Remedy string }

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s; %s", r.Rule, r.Reason, r.Remedy) }

// trainingChip refuses chips that the training operators are not registered for: Atlas A2
// and A3 have them. An unknown chip is given the chance.
func trainingChip(env *Env, operator string) error {
	for _, prefix := range []string{"Ascend910B", "Ascend910_93"} {
		if strings.HasPrefix(env.SoC, prefix) {
			return nil
		}
	}
	if env.SoC == "" {
		return nil
	}
	return fmt.Errorf("%s has no %s; Atlas A2 and A3 do", env.SoC, operator)
}

// available is nil if this CANN has the operator, or else says so shortly: the reason stands
// in a line with those of other kernels.
func available(p aclnn.Params) error {
	if err := p.Operator().Available(); err != nil {
		return fmt.Errorf("this CANN has no %s (since %s)", p.Operator().Symbol, p.Operator().Since)
	}
	return nil
}

// has is a Supports that asks for aclnn operators only.
func has[A any](params ...aclnn.Params) func(*Env, *A) error {
	return func(*Env, *A) error { return availableAll(params...) }
}

func availableAll(params ...aclnn.Params) error {
	for _, p := range params {
		if err := available(p); err != nil {
			return err
		}
	}
	return nil
}

// is16 reports whether a dtype is a 16-bit float.
func is16(dt aclnn.DType) bool { return dt == aclnn.Float16 || dt == aclnn.BFloat16 }

// dtypeOf is the dtype of a tensor that may be nil.
func dtypeOf(t *aclnn.Tensor) aclnn.DType {
	if t == nil {
		return aclnn.Undefined
	}
	return t.DType()
}

// dtypeSignature is the signature of operators whose kernels look at dtypes only, at most
// eight of them.
func dtypeSignature(tensors ...*aclnn.Tensor) (s Signature) {
	for i, t := range tensors {
		s[i/2] = s[i/2]<<32 | uint64(uint32(dtypeOf(t)))
	}
	return s
}
