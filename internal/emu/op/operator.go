package op

import (
	_ "embed"
	"fmt"
	"sort"
	"strings"
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

// Use says whether an operator reads or writes a tensor.
type Use uint8

const (
	Read Use = iota
	Written
	Updated // read and written in place
)

// Operator is an entry of the generated operator table: the C name without "aclnn", and the
// arguments except workspaceSize and executor. Its index in the table is the operator's id.
type Operator struct {
	Name       string
	Individual bool // has an NNOPBASE executor, see abi.Individual
	Params     []Param
}

//go:embed zz_operators.txt
var operatorText string

// Operators are all aclnn operators, sorted by name; the index is the id.
var Operators = readOperators(operatorText)

// classes has the letters of the classes in the list of operators.
const classes = "tTsSifbcIBDFp"

// readOperators reads a list with an operator in each line after the first: its name, with * if it is
// an individual one, and its arguments as name:class, with > after the class of a written tensor and &
// after that of an updated one.
func readOperators(text string) (all []Operator) {
	_, text, _ = strings.Cut(text, "\n")
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		name, individual := strings.CutSuffix(words[0], "*")
		o := Operator{Name: name, Individual: individual, Params: make([]Param, len(words)-1)}
		for i, word := range words[1:] {
			name, class, _ := strings.Cut(word, ":")
			o.Params[i] = Param{name, Class(strings.IndexByte(classes, class[0])), Use(strings.Index(" >&", class[1:]))}
		}
		all = append(all, o)
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
