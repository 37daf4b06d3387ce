package op

import (
	"fmt"
	"sort"

	"github.com/goascend/cann/internal/abi"
)

// Class is the kind of an operator's argument.
type Class uint8

const (
	TensorClass Class = iota
	TensorListClass
	ScalarClass
	ScalarListClass
	IntArrayClass
	FloatArrayClass
	BoolArrayClass
	StringClass
	IntClass    // every integer type and every enum
	BoolClass   // bool
	DoubleClass // double
	FloatClass  // float
	PointerClass
)

// Param is one argument of phase one, named as in the C declaration.
type Param struct {
	Name  string
	Class Class
	Use   Use // for tensors and tensor lists
}

// Use is whether an operator reads or writes a tensor.
type Use = abi.Use

const (
	Read    = abi.Read
	Written = abi.Written
	Updated = abi.Updated // read and written in place
)

// Operator is an operator of CANN's table: the C name without "aclnn", and the arguments except
// workspaceSize and executor. Its place among Operators is the operator's id.
type Operator struct {
	Name       string
	Individual bool // has an NNOPBASE executor, see abi.Individual
	Params     []Param
}

// Operators are all aclnn operators, sorted by name; the index is the id.
var Operators = readOperators()

// classes has the classes of C's arguments. Integers of all widths and enums are one.
var classes = map[abi.Class]Class{
	abi.Tensor: TensorClass, abi.TensorList: TensorListClass, abi.Scalar: ScalarClass, abi.ScalarList: ScalarListClass,
	abi.IntArray: IntArrayClass, abi.FloatArray: FloatArrayClass, abi.BoolArray: BoolArrayClass, abi.String: StringClass,
	abi.Int: IntClass, abi.Uint: IntClass, abi.Enum: IntClass, abi.DType: IntClass,
	abi.Bool: BoolClass, abi.Double: DoubleClass, abi.Float: FloatClass, abi.Pointer: PointerClass,
}

// readOperators takes the operators from the table, which is sorted by name.
func readOperators() []Operator {
	table, err := abi.Load()
	if err != nil {
		panic(err)
	}
	all := make([]Operator, len(table.Operators))
	for i, o := range table.Operators {
		params := make([]Param, len(o.Params))
		for k, p := range o.Params {
			class, known := classes[p.Class]
			if !known {
				panic(fmt.Sprintf("%s: the emulator has no class for %s %s", o.Symbol, p.Type, p.Name))
			}
			params[k] = Param{p.Name, class, p.Use}
		}
		all[i] = Operator{o.Name, abi.Individual(o.Name), params}
	}
	return all
}

// Prepare is phase one of an operator: it checks the arguments and returns the computation.
type Prepare func(c *Call) (Run, error)

// Run is the computation of phase two. It runs on the stream after the memory of every tensor of
// the call has been resolved. Its error becomes an asynchronous fault of the stream.
type Run func(x *Exec) error

// Table maps operator names (without "aclnn") to their implementation.
type Table map[string]Prepare

// Find returns the table entry of an operator, or nil.
func Find(name string) *Operator {
	i := sort.Search(len(Operators), func(i int) bool { return Operators[i].Name >= name })
	if i == len(Operators) || Operators[i].Name != name {
		return nil
	}
	return &Operators[i]
}

// Merge joins tables. It panics if two tables implement the same operator.
func Merge(tables ...Table) Table {
	all := make(Table)
	for _, t := range tables {
		for name, prepare := range t {
			if _, twice := all[name]; twice {
				panic(fmt.Sprintf("operator %s is implemented twice", name))
			}
			all[name] = prepare
		}
	}
	return all
}
