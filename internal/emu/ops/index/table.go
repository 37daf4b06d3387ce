package index

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(
	bags,
	cacheWrites,
	embeddings,
	indexing,
	jagged,
	oneHots,
	reading,
	searches,
	selections,
	writing,
)
