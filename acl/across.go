package acl

import (
	"slices"
	"strings"
)

// On these chips CANN answers a wait for an event of another device with success, and lets the
// stream run on (its sources call the missing feature TASK_VALUE_WAIT).
var (
	unwaiting       = []string{"Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"}
	unwaitingSeries = []string{"Ascend310", "Ascend610"}
)

// waitsAcross reports whether streams of a chip wait for events of other devices.
func waitsAcross(soc string) bool {
	return !slices.Contains(unwaiting, soc) && !slices.ContainsFunc(unwaitingSeries, func(s string) bool { return strings.HasPrefix(soc, s) })
}

// across refuses a wait of the stream for an event of another device where it would not wait.
func (q *queue) across(op string) error {
	soc, _ := aclrtGetSocName(0) // "" when CANN does not know it
	if waitsAcross(soc) {
		return nil
	}
	return q.refuse(op, ErrNotSupported, "streams of %s do not wait for events of other devices; wait with Event.Synchronize before queueing the work", soc)
}
