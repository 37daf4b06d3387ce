package cshim

import (
	"sync"
	"sync/atomic"
)

// Operator is a two-phase aclnn operator, looked for when it is first launched. The zero
// value but for Symbol is ready, so that tables of operators are static data.
type Operator struct {
	Symbol string // C name of phase two, such as "aclnnAdd"

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
