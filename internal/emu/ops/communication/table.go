package communication

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(fused, fusedExchanges, fusedExperts).Exchanges()
