package cshim

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Operator is a two-phase aclnn operator, looked for when it is first launched. The zero
// value except Symbol is ready, so that tables of operators are static data.
type Operator struct {
	Symbol string // C name of phase two, such as "aclnnAdd"
	// Slots has a letter for each parameter: i for a tensor or a list of tensors that the operator
	// reads or updates, o for one that it writes, h for a scalar or an array, - for what else there
	// is. Only Prepared.Bind needs it, for operators whose executors count tensors by these.
	Slots string
	// Foreign names the releases of CANN, separated by spaces, that have other parameters under the symbol. With one of
	// them installed the operator is not available.
	Foreign string

	found atomic.Pointer[phases]
	once  sync.Once
	err   error
}

// phases are the addresses of an operator's two C functions, published together: a goroutine
// that finds one finds both.
type phases struct{ prepare, execute uint64 }

// Available reports whether both phases exist, with the parameters that the program passes: nil, *SymbolError,
// *FormError or *LibraryError.
func (o *Operator) Available() error {
	if o.found.Load() != nil {
		return nil
	}
	o.once.Do(func() {
		if o.err = bindBase(); o.err != nil {
			return
		}
		var p phases
		if p.prepare, o.err = resolve(Op, o.Symbol+"GetWorkspaceSize"); o.err != nil {
			return
		}
		if p.execute, o.err = resolve(Op, o.Symbol); o.err != nil {
			return
		}
		if o.err = o.fits(); o.err != nil {
			return
		}
		o.found.Store(&p)
	})
	return o.err
}

// fits refuses an operator whose symbol has other parameters in the installed release.
func (o *Operator) fits() error {
	if o.Foreign == "" {
		return nil
	}
	installed, err := InstalledRelease()
	if err == nil && slices.Contains(strings.Fields(o.Foreign), installed) {
		return &FormError{Symbol: o.Symbol, Installed: installed}
	}
	return err
}
