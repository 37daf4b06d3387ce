package nn

import (
	"maps"
	"slices"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/activation"
	"github.com/goascend/cann/internal/emu/ops/attention"
	"github.com/goascend/cann/internal/emu/ops/communication"
	"github.com/goascend/cann/internal/emu/ops/comparison"
	"github.com/goascend/cann/internal/emu/ops/convolution"
	"github.com/goascend/cann/internal/emu/ops/elementwise"
	"github.com/goascend/cann/internal/emu/ops/foreach"
	"github.com/goascend/cann/internal/emu/ops/index"
	"github.com/goascend/cann/internal/emu/ops/layout"
	"github.com/goascend/cann/internal/emu/ops/linalg"
	"github.com/goascend/cann/internal/emu/ops/loss"
	"github.com/goascend/cann/internal/emu/ops/matmul"
	"github.com/goascend/cann/internal/emu/ops/moe"
	"github.com/goascend/cann/internal/emu/ops/normalization"
	"github.com/goascend/cann/internal/emu/ops/optimizer"
	"github.com/goascend/cann/internal/emu/ops/pooling"
	"github.com/goascend/cann/internal/emu/ops/quantization"
	"github.com/goascend/cann/internal/emu/ops/random"
	"github.com/goascend/cann/internal/emu/ops/recurrent"
	"github.com/goascend/cann/internal/emu/ops/reduction"
	"github.com/goascend/cann/internal/emu/ops/resampling"
)

// implementations is the joined table of all families.
var implementations = op.Merge(
	activation.Table,
	attention.Table,
	communication.Table,
	comparison.Table,
	convolution.Table,
	elementwise.Table,
	foreach.Table,
	index.Table,
	layout.Table,
	linalg.Table,
	loss.Table,
	matmul.Table,
	moe.Table,
	normalization.Table,
	optimizer.Table,
	pooling.Table,
	quantization.Table,
	random.Table,
	recurrent.Table,
	reduction.Table,
	resampling.Table,
)

// Implemented returns the sorted names, without "aclnn", of the operators that compute.
func Implemented() []string { return slices.Sorted(maps.Keys(implementations)) }

// Name returns the C name of the phase-two function of the operator with the given id.
func Name(id int) string {
	o, _ := operatorOf(id)
	return "aclnn" + o.Name
}
