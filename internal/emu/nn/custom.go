package nn

import (
	"fmt"
	"slices"
	"sync"

	"github.com/goascend/cann/internal/emu/op"
)

// Limits of operators that a program registers. Package export has a C function for each of them.
const (
	MostCustom       = 64
	MostCustomParams = 62
	CustomFloats     = 8 // words of floating-point registers, after the others
)

// custom is an operator that a program has registered.
type custom struct {
	op      *op.Operator
	prepare op.Prepare
}

var customs struct {
	sync.RWMutex
	all []custom
}

// Register adds an operator to those of the table.
func Register(o *op.Operator, p op.Prepare) error {
	floats := len(o.Params) - integers(o)
	customs.Lock()
	defer customs.Unlock()
	switch {
	case slices.ContainsFunc(customs.all, func(c custom) bool { return c.op.Name == o.Name }):
		return fmt.Errorf("aclnn%s is registered already", o.Name)
	case len(customs.all) == MostCustom:
		return fmt.Errorf("%d operators are registered; there is no room for more", MostCustom)
	case len(o.Params) > MostCustomParams || floats > CustomFloats:
		return fmt.Errorf("aclnn%s has %d parameters, %d of them floating-point numbers; at most %d and %d are possible", o.Name, len(o.Params), floats, MostCustomParams, CustomFloats)
	}
	customs.all = append(customs.all, custom{o, func(c *op.Call) (op.Run, error) {
		c.ServeOnce() // the program's phase one runs in each call
		return p(c)
	}})
	return nil
}

// Custom returns the number of a registered operator, from 0 on, and how many words its phase one takes
// that are no floating-point numbers. The operator's id is -1 minus its number.
func Custom(name string) (number, words int, ok bool) {
	customs.RLock()
	defer customs.RUnlock()
	i := slices.IndexFunc(customs.all, func(c custom) bool { return c.op.Name == name })
	if i < 0 {
		return 0, 0, false
	}
	return i, integers(customs.all[i].op) + 2, true
}

// operatorOf returns the operator with an id.
func operatorOf(id int) (*op.Operator, op.Prepare) {
	if id < 0 {
		customs.RLock()
		defer customs.RUnlock()
		c := customs.all[-1-id]
		return c.op, c.prepare
	}
	o := &op.Operators[id]
	if p, ok := implementations[o.Name]; ok {
		return o, p
	}
	return o, unimplemented
}

// integers counts the parameters that are passed like integers.
func integers(o *op.Operator) (n int) {
	for _, p := range o.Params {
		if !floating(p) {
			n++
		}
	}
	return n
}

func floating(p op.Param) bool { return p.Class == op.DoubleClass || p.Class == op.FloatClass }

// arranged puts the words of a registered operator's phase one in the order of its parameters. They come
// as C passes them: first all integers and pointers, then the floating-point registers.
func arranged(o *op.Operator, words []uint64) []uint64 {
	whole, floats := words[:len(words)-CustomFloats], words[len(words)-CustomFloats:]
	all := make([]uint64, 0, len(o.Params)+2)
	for _, p := range o.Params {
		from := &whole
		if floating(p) {
			from = &floats
		}
		all, *from = append(all, (*from)[0]), (*from)[1:]
	}
	return append(all, whole...)
}
