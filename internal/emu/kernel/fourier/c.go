package fourier

/*
#cgo CFLAGS: -std=gnu11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/..
#cgo LDFLAGS: -lm
#include "table.h"
*/
import "C"

import (
	"github.com/goascend/cann/internal/emu/kernel"
)

func init() {
	kernel.OnSelect(func(variant int, _ bool) { C.fourier_use(C.int(variant)) })
}
