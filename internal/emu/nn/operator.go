package nn

// class is how an argument of an operator travels.
type class uint8

const (
	tensorClass class = iota
	tensorListClass
	scalarClass
	scalarListClass
	intArrayClass
	floatArrayClass
	boolArrayClass
	stringClass
	intClass    // every integer type and every enum
	boolClass   // bool
	doubleClass // double
	floatClass  // float
	pointerClass
)

// param is one argument of phase one, named as in the C declaration.
type param struct {
	name  string
	class class
	use   use // of a tensor or tensors
}

// use is what an operator does with a tensor.
type use uint8

const (
	read use = iota
	written
	updated // read and written in place
)

// operator is an entry of the generated table: the C name without "aclnn" and the
// arguments without workspaceSize and executor. Its index is the operator's id.
type operator struct {
	name   string
	params []param
}

// Prepare is phase one of an operator: check the arguments, return what to compute.
type Prepare func(c *Call) (Run, error)

// Run is phase two: it runs on the stream, after the memory of every tensor of the call
// was resolved. An error becomes an asynchronous fault of the stream.
type Run func(x *Exec) error

// table maps operator names (without "aclnn") to their implementation.
type table map[string]Prepare
