package ops

import "github.com/goascend/cann/ops/internal/check"

// args checks the arguments of an operator. Its methods in this package are the checks that several
// operators share.
type args struct{ check.Args }

var (
	floats  = check.Floats
	indices = check.Indices
	invalid = check.Invalid
)
