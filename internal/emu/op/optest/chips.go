package optest

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// UnlistedBFloat16 runs phase one of the recorded calls of one operator, and of their variations, on a chip without
// bfloat16. It computes nothing. It lists the tensors that phase one accepts as bfloat16 although the operator's source
// does not have that type for the chip: its rules leave the tensor other types, or the source is closed or was not wholly
// read. It also reports whether phase one accepts a call without bfloat16: if it accepts none, refusals show nothing.
func UnlistedBFloat16(calls []AcceptedCall, chip acceptance.Chip) (unlisted []string, others bool, err error) {
	for _, a := range calls {
		o := op.Find(a.Operator)
		call, err := a.of(o)
		if err != nil {
			return nil, false, err
		}
		types, missing, err := acceptance.Types(o.Name, chip)
		if err != nil {
			return nil, false, err
		}
		source, public := acceptance.SourceOf(o.Name)
		try := func(call recorded) {
			var has bool
			var found []string
			for i, p := range o.Params {
				if !slices.Contains(typesOf(call.tensors(i)), dtype.BFloat16) {
					continue
				}
				has = true
				list, limited := types[p.Name]
				if limited && !slices.Contains(list, dtype.BFloat16) || !limited && (!public || source.Lost > 0) {
					found = append(found, fmt.Sprintf("aclnn%s: %s", o.Name, p.Name))
				}
			}
			if (found != nil || !has && !others) && call.acceptedOn(chip) {
				unlisted = append(unlisted, found...)
				others = others || !has
			}
		}
		try(call)
		for _, v := range variations(call) {
			if v.to == dtype.BFloat16 || !others && !missing {
				try(v.of(call, v.to))
			}
		}
	}
	slices.Sort(unlisted)
	return slices.Compact(unlisted), others, nil
}

// acceptedOn reports whether phase one accepts the call on a chip.
func (r recorded) acceptedOn(chip acceptance.Chip) bool {
	var memory kerneltest.Arena
	defer memory.Free()
	_, _, err := r.prepare(&memory, &replay{op: r.op}, start{chip: chip}, Tested[r.op.Name])
	return err == nil
}
