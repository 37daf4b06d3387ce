package rt

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/emu/knob"
)

// visible applies ASCEND_RT_VISIBLE_DEVICES, a comma-separated list of device indexes in ascending
// order. Parsing stops at the first invalid token, and the indexes before it are used. The visible
// devices are renumbered from 0.
func visible(r *Runtime) {
	list, set := knob.Lookup("ASCEND_RT_VISIBLE_DEVICES")
	if !set {
		return
	}
	var keep []*Device
	last := -1
	for token := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(token))
		if err != nil || n < 0 || n >= len(r.devices) {
			break
		}
		if n <= last {
			r.err = fmt.Errorf("EE2002: ASCEND_RT_VISIBLE_DEVICES=%q: the indexes must ascend without repeats", list)
			return
		}
		last = n
		keep = append(keep, r.devices[n])
	}
	for i, d := range keep {
		d.id = i
	}
	r.devices = keep
}
