package hccl

import (
	"fmt"

	"github.com/goascend/cann/internal/abi"
)

// ReduceOp selects how a collective combines the elements of the ranks (HcclReduceOp).
type ReduceOp int32

// The operations of HCCL. There is no average; divide the sum instead.
const (
	Sum  ReduceOp = abi.HCCL_REDUCE_SUM
	Prod ReduceOp = abi.HCCL_REDUCE_PROD
	Max  ReduceOp = abi.HCCL_REDUCE_MAX
	Min  ReduceOp = abi.HCCL_REDUCE_MIN
)

// String returns the operation's name.
func (op ReduceOp) String() string {
	switch op {
	case Sum:
		return "sum"
	case Prod:
		return "prod"
	case Max:
		return "max"
	case Min:
		return "min"
	}
	return fmt.Sprintf("ReduceOp(%d)", int32(op))
}
