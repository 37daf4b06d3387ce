package acceptance

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Op is an operation of the conditions.
type Op uint8

// The operations. A, B are numbers or conditions, S, T shapes, X an argument or a member of a list.
const (
	Constant   Op = iota
	Argument      // an argument by its name
	Text          // "text"
	Variable      // $1: the index of an enclosing Any
	And           // (and A B …)
	Or            // (or A B …)
	Not           // (not A)
	If            // (if A B C): B under A, or C
	Equal         // (eq A B)
	Unequal       // (ne A B)
	Less          // (lt A B)
	AtMost        // (le A B)
	Greater       // (gt A B)
	AtLeast       // (ge A B)
	Add           // (+ A B)
	Subtract      // (- A B)
	Multiply      // (* A B)
	Divide        // (/ A B), of integers
	Quotient      // (quot A B), of numbers with a fraction
	Remainder     // (% A B)
	Truncate      // (trunc A): without its fraction
	In            // (in A B …): A is one of the others
	Null          // (null X)
	Type          // (dt X): the element type
	Format        // (fmt X): the storage format
	Empty         // (empty X): a tensor without elements
	Count         // (count X): the members of a list or an array, the elements of a tensor
	At            // (at X A): a member
	Number        // (number X): the value of a scalar
	Offset        // (offset X): the first element of a view
	View          // (view X): the shape of a tensor
	Storage       // (storage X): the shape of its storage
	Rank          // (rank S)
	Dim           // (dim S A): negative A count from the end
	Len           // (len S): the elements of a shape or a tensor
	Product       // (prod S A B): the product of the sizes of dimensions A to B-1, or of the members of an array
	Broadcast     // (broadcast S T): the common shape
	Broadcasts    // (bcok S T): whether there is one
	Same          // (sheq S T)
	Shape         // (shape A …)
	Append        // (append S A)
	Set           // (set S A B): the size of dimension A is B
	Private       // (private A): a format that permutes the elements
	Promote       // (promote A B): the common element type, or undefined
	Promoted      // (promoted X A): the common element type of the first A members of a list, or undefined
	Castable      // (cast A B): whether a result of type A may be stored as B
	Bytes         // (bytes A): the size of an element type
	SameText      // (samestr X "text")
	Any           // (any $1 A B C): C for some index from A to B-1
)

var ops = map[string]Op{
	"and": And, "or": Or, "not": Not, "if": If, "eq": Equal, "ne": Unequal, "lt": Less, "le": AtMost, "gt": Greater, "ge": AtLeast,
	"+": Add, "-": Subtract, "*": Multiply, "/": Divide, "quot": Quotient, "prod": Product, "promoted": Promoted, "%": Remainder, "trunc": Truncate, "in": In, "null": Null, "dt": Type, "fmt": Format, "empty": Empty,
	"count": Count, "at": At, "number": Number, "offset": Offset, "view": View, "storage": Storage, "rank": Rank, "dim": Dim, "len": Len,
	"broadcast": Broadcast, "bcok": Broadcasts, "sheq": Same, "shape": Shape, "append": Append, "set": Set, "private": Private,
	"promote": Promote, "cast": Castable, "bytes": Bytes, "samestr": SameText, "any": Any,
}

// constants are the names of element types and formats.
var constants = map[string]int64{
	"f32": 0, "f16": 1, "i8": 2, "i32": 3, "u8": 4, "i16": 6, "u16": 7, "u32": 8, "i64": 9, "u64": 10, "f64": 11, "bool": 12, "string": 13,
	"c64": 16, "c128": 17, "bf16": 27, "undefined": -1, "i4": 29, "u1": 30, "i2": 31, "u2": 32, "c32": 33, "hif8": 34, "e5m2": 35, "e4m3": 36,
	"e8m0": 37, "e3m2": 38, "e2m3": 39, "e2m1": 40, "e1m2": 41,
	"NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "C1HWNCoC0": 6, "NC1HWC0_C04": 12, "HWCN": 16, "NDHWC": 27, "CHWN": 28,
	"FRACTAL_NZ": 29, "NCDHW": 30, "DHWCN": 31, "NDC1HWC0": 32, "FRACTAL_Z_3D": 33, "NC": 35, "NCL": 47, "UNDEFINED": -1, "RESERVED": -1,
	"FRACTAL_NZ_C0_16": 50, "FRACTAL_NZ_C0_32": 51, "FRACTAL_NZ_C0_2": 52, "FRACTAL_NZ_C0_4": 53, "FRACTAL_NZ_C0_8": 54, "FRACTAL_Z_C04": 99,
}

var errSyntax = errors.New("invalid syntax")

// Parse reads a condition as it stands in the tables.
func Parse(s string) (*Node, error) {
	p := &parser{s: s}
	n, err := p.node(0)
	if err == nil && strings.TrimSpace(p.s) != "" {
		err = errSyntax
	}
	return n, err
}

type parser struct{ s string }

func (p *parser) word() string {
	n := strings.IndexAny(p.s, " )")
	if n < 0 {
		n = len(p.s)
	}
	w := p.s[:n]
	p.s = p.s[n:]
	return w
}

// maxDepth bounds the nesting of conditions.
const maxDepth = 200

func (p *parser) node(depth int) (*Node, error) {
	p.s = strings.TrimLeft(p.s, " ")
	if p.s == "" || depth > maxDepth {
		return nil, errSyntax
	}
	switch c := p.s[0]; {
	case c == '(':
		p.s = p.s[1:]
		name := p.word()
		op, ok := ops[name]
		if !ok {
			return nil, fmt.Errorf("%w: operation %q", errSyntax, name)
		}
		n := &Node{Op: op}
		for {
			p.s = strings.TrimLeft(p.s, " ")
			if p.s == "" || p.s[0] == ')' { // the end closes all
				p.s = strings.TrimPrefix(p.s, ")")
				return n, n.check()
			}
			a, err := p.node(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Args = append(n.Args, a)
		}
	case c == '"':
		text, err := strconv.QuotedPrefix(p.s)
		if err != nil {
			return nil, err
		}
		p.s = p.s[len(text):]
		s, err := strconv.Unquote(text)
		return &Node{Op: Text, Name: s}, err
	case c == '$':
		i, err := strconv.Atoi(p.word()[1:])
		if err == nil && (i < 1 || i > MaxLoops) {
			err = errSyntax
		}
		return &Node{Op: Variable, Index: i - 1}, err
	}
	w := p.word()
	if v, ok := constants[w]; ok {
		return &Node{Op: Constant, Value: Integer(v), Name: w}, nil
	}
	w, marked := strings.CutPrefix(w, "#")
	if v, err := strconv.ParseInt(w, 10, 64); err == nil {
		return &Node{Op: Constant, Value: Integer(v), Name: w}, nil
	}
	if v, err := strconv.ParseFloat(w, 64); err == nil {
		return &Node{Op: Constant, Value: Real(v), Name: w}, nil
	}
	if marked {
		return nil, fmt.Errorf("%w: %q is no number", errSyntax, w)
	}
	if w == "" || strings.ContainsAny(w, `?@"`) {
		return nil, fmt.Errorf("%w: %q", errSyntax, w)
	}
	return &Node{Op: Argument, Name: w}, nil
}

// MaxLoops is the deepest nesting of Any.
const MaxLoops = 8

// arity is the number of arguments of the operations that do not take any number.
var arity = map[Op]int{
	Not: 1, If: 3, Equal: 2, Unequal: 2, Less: 2, AtMost: 2, Greater: 2, AtLeast: 2, Add: 2, Subtract: 2, Multiply: 2, Divide: 2,
	Quotient: 2, Product: 3, Promoted: 2, Remainder: 2, Truncate: 1, Null: 1, Type: 1, Format: 1, Empty: 1, Count: 1, At: 2, Number: 1, Offset: 1, View: 1, Storage: 1, Rank: 1, Dim: 2,
	Len: 1, Broadcast: 2, Broadcasts: 2, Same: 2, Append: 2, Set: 3, Private: 1, Promote: 2, Castable: 2, Bytes: 1, SameText: 2, Any: 4,
}

// check completes a node and refuses a wrong number of arguments.
func (n *Node) check() error {
	if want, ok := arity[n.Op]; ok && len(n.Args) != want || n.Op == In && len(n.Args) < 2 {
		return fmt.Errorf("%w: %d arguments of operation %d", errSyntax, len(n.Args), n.Op)
	}
	if n.Op == In && !slices.ContainsFunc(n.Args[1:], func(a *Node) bool { return a.Op != Constant || a.Value.IsReal || a.Value.Int < 0 || a.Value.Int > 63 }) {
		for _, a := range n.Args[1:] {
			n.Set |= 1 << uint(a.Value.Int)
		}
	}
	return nil
}

var names = func() map[Op]string {
	m := map[Op]string{}
	for name, op := range ops {
		m[op] = name
	}
	return m
}()

// String returns the condition as it stands in the table.
func (n *Node) String() string {
	switch n.Op {
	case Constant, Argument:
		return n.Name
	case Text:
		return strconv.Quote(n.Name)
	case Variable:
		return "$" + strconv.Itoa(n.Index+1)
	}
	parts := []string{names[n.Op]}
	for _, a := range n.Args {
		parts = append(parts, a.String())
	}
	return "(" + strings.Join(parts, " ") + ")"
}
