package ops

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
	"github.com/goascend/cann/internal/dtype"
)

// aicore returns the kernels that leave the AI Core for some dtypes. A test of package abi rules out
// that the list is invalid.
var aicore = sync.OnceValues(abi.LoadAICore)

// left collects the calls of a kernel that leave the AI Core.
type left struct {
	mu    sync.Mutex
	calls []string // sorted, each once
}

func (l *left) add(calls ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range calls {
		if i, found := slices.BinarySearch(l.calls, c); !found {
			l.calls = slices.Insert(l.calls, i, c)
		}
	}
}

// launched is a bridge.Observer.
func (l *left) launched(operator, params string, launch *cshim.Launch) {
	list, err := aicore()
	if err != nil {
		return
	}
	if why := list.Leaves(operator, computation(operator, strings.Fields(params), launch)); why != "" {
		l.add("aclnn" + operator + ": " + why)
	}
}

// computation returns the facts of a call that decide on which processor it runs, most of them of its
// first tensor.
func computation(operator string, params []string, launch *cshim.Launch) abi.Computation {
	first, last, other, out := dtype.Undefined, dtype.Undefined, dtype.Undefined, dtype.Undefined
	c := abi.Computation{Row: -1}
	launch.Each(func(param, _ int, d *cshim.TensorDesc) {
		t := dtype.Type(d.DType)
		if first == dtype.Undefined {
			first, c.Elements = t, 1
			for _, n := range d.Dims[:d.Rank] {
				c.Elements, c.Row = c.Elements*n, n
			}
		}
		last = t
		switch {
		case param < len(params) && params[param] == "other":
			other = t
		case param < len(params) && params[param] == "out":
			out = t
		}
	})
	c.From, c.To = first.String(), last.String()
	switch {
	case operator == "InplaceCopy": // it names its target first
		c.From, c.To = c.To, c.From
	case operator == "Cumsum": // which casts first
		first = out
	case other != dtype.Undefined:
		first = wider(first, other)
	}
	c.DType = first.String()
	return c
}

// wider returns the dtype in which an operator computes with two tensors.
func wider(a, b dtype.Type) dtype.Type {
	float := func(t dtype.Type) bool { return strings.Contains(t.String(), "float") }
	switch {
	case a == b:
		return a
	case float(a) != float(b):
		if float(a) {
			return a
		}
		return b
	case a.Bits() == b.Bits() && float(a):
		return dtype.Float32
	case a.Bits() >= b.Bits():
		return a
	}
	return b
}

// watch runs a kernel and collects the calls that leave the AI Core, as does a kernel that this one is
// part of.
func (l *left) watch(st *acl.Stream, run func() error) error {
	_, user, err := bridge.StreamOf(st)
	if err != nil {
		return run()
	}
	outer := user.Observer.Load()
	observe := bridge.Observer(func(operator, params string, launch *cshim.Launch) {
		l.launched(operator, params, launch)
		if outer != nil {
			(*outer)(operator, params, launch)
		}
	})
	user.Observer.Store(&observe)
	defer user.Observer.Store(outer)
	return run()
}

// report logs the calls that leave the AI Core, once for a choice.
func (l *left) report(log *slog.Logger, operator, kernel string) {
	if calls := l.list(); len(calls) > 0 {
		log.Warn("a kernel leaves the AI Core", "operator", operator, "kernel", kernel, "calls", calls)
	}
}

func (l *left) list() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}
