package job

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/hccl/world"
)

// Agree compares the ranks' facts, such as flags and versions, by name. All ranks of the group call it. If they differ, it
// fails on all ranks with the same error, which matches acl.ErrInvalidArgument and names each fact with its values and ranks.
// A fact that a rank lacks is empty there.
func Agree(ctx context.Context, group *world.Group, facts map[string]string) error {
	all, err := world.AllGather(ctx, group, facts)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, one := range all {
		for name := range one {
			names[name] = true
		}
	}
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var values []string // in the order of the first rank with each
		ranks := map[string][]string{}
		for rank, one := range all {
			value := one[name]
			if ranks[value] == nil {
				values = append(values, value)
			}
			ranks[value] = append(ranks[value], fmt.Sprint(rank))
		}
		if len(values) == 1 {
			continue
		}
		for i, value := range values {
			word := "rank"
			if len(ranks[value]) > 1 {
				word = "ranks"
			}
			values[i] = fmt.Sprintf("%q on %s %s", value, word, strings.Join(ranks[value], ", "))
		}
		differ = append(differ, fmt.Sprintf("%s is %s", name, strings.Join(values, ", ")))
	}
	if differ == nil {
		return nil
	}
	return fmt.Errorf("%w: all ranks must have the same: %s", acl.ErrInvalidArgument, strings.Join(differ, "; "))
}
