package cshim

import (
	"sync"
	"sync/atomic"
)

// Operator is a two-phase aclnn operator, looked for when it is first launched. The zero
// value but for Symbol is ready, so that tables of operators are static data.
type Operator struct {
	Symbol string // C name of phase two, such as "aclnnAdd"
	// Slots has a letter for each parameter: i for a tensor or a list of tensors that the operator
	// reads or updates, o for one that it writes, h for a scalar or an array, - for what else there
	// is. Only Prepared.Bind needs it, for operators whose executors count tensors by these.
	Slots string

	prepare, execute atomic.Uint64
	once             sync.Once
	err              error
}

// Available reports whether both phases exist: nil, *SymbolError or *LibraryError.
func (o *Operator) Available() error {
	if o.execute.Load() != 0 {
		return nil
	}
	o.once.Do(func() {
		if o.err = bindBase(); o.err != nil {
			return
		}
		var one, two uint64
		if one, o.err = resolve(Op, o.Symbol+"GetWorkspaceSize"); o.err != nil {
			return
		}
		if two, o.err = resolve(Op, o.Symbol); o.err != nil {
			return
		}
		o.prepare.Store(one)
		o.execute.Store(two)
	})
	return o.err
}
