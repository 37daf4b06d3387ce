package attention

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(
	attentionTable,
	cacheWrites,
	compressions,
	decoding,
	deformables,
	inferenceTable,
	latentAttentions,
	packedHeads,
	ropeCaches,
	rotary,
	sparseAttentions,
)
