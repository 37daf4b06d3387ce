package attention

/*
#cgo CFLAGS: -std=gnu11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/.. -I${SRCDIR}/../block
#cgo LDFLAGS: -lm
#include "table.h"
*/
import "C"

import (
	"github.com/goascend/cann/internal/emu/kernel"
	_ "github.com/goascend/cann/internal/emu/kernel/block" // whose headers the C includes: a change of them rebuilds this package
)

func init() {
	kernel.OnSelect(func(variant int, fast bool) { C.attention_use(C.int(variant), C._Bool(fast)) })
}
