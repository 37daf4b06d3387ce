//go:build emu && linux && cgo && (amd64 || arm64)

package emu

import (
	"slices"

	"github.com/goascend/cann/internal/emu/op"
)

// Call is a call of phase one. Its arguments have the names of the C declaration; a name that it does not
// have, or of another type, refuses the call with code 561000.
type Call struct{ c *op.Call }

// Workspace asks for n more bytes of device memory for the Run.
func (c *Call) Workspace(n int) { c.c.Workspace(int64(n)) }

// Tensor returns a tensor. One that is null refuses the call with code 161001, whatever phase one returns;
// in its place there is one without elements.
func (c *Call) Tensor(name string) *Tensor {
	if t := c.c.Tensor(name); t != &op.Absent {
		return &Tensor{t}
	}
	return &Tensor{&op.Tensor{Name: name, Shape: []int64{0}, Strides: []int64{1}}}
}

// Optional returns a tensor, or nil if it is null.
func (c *Call) Optional(name string) *Tensor {
	if t := c.c.Optional(name); t != nil {
		return &Tensor{t}
	}
	return nil
}

// Tensors returns the tensors of a list, which is empty if it is null.
func (c *Call) Tensors(name string) (all []*Tensor) {
	for _, t := range c.c.Tensors(name) {
		all = append(all, &Tensor{t})
	}
	return all
}

// Int returns an integer, an enumerator or an element type.
func (c *Call) Int(name string) int64 { return c.c.Int(name) }

// Float returns a double or a float.
func (c *Call) Float(name string) float64 { return c.c.Float(name) }

// Bool returns a bool.
func (c *Call) Bool(name string) bool { return c.c.Bool(name) }

// Text returns a string, which is empty if it is null.
func (c *Call) Text(name string) string { return c.c.Text(name) }

// Ints returns an aclIntArray, nil if it is null.
func (c *Call) Ints(name string) []int64 { return slices.Clone(c.c.Ints(name)) }

// Floats returns an aclFloatArray, nil if it is null.
func (c *Call) Floats(name string) []float32 { return slices.Clone(c.c.Floats(name)) }

// Bools returns an aclBoolArray, nil if it is null.
func (c *Call) Bools(name string) []bool { return slices.Clone(c.c.Bools(name)) }

// Scalar returns the value of a real aclScalar; ok is false if it is null.
func (c *Call) Scalar(name string) (value float64, ok bool) {
	s := c.c.OptionalScalar(name)
	if s == nil {
		return 0, false
	}
	return s.Float64(), true
}

// Scalars returns the values of a list of real scalars, which is empty if it is null.
func (c *Call) Scalars(name string) (values []float64) {
	for _, s := range c.c.Scalars(name) {
		values = append(values, s.Float64())
	}
	return values
}
