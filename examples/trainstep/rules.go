package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goascend/cann/ops/parallel"
)

// shardRules are those of -shard-rules.
type shardRules []parallel.ShardRule

// roles maps the names of roles.
var roles = map[string]parallel.WeightRole{"plain": parallel.PlainWeight, "grouped": parallel.GroupedWeight, "whole": parallel.WholeWeight}

// String implements flag.Value.
func (r *shardRules) String() string {
	var list []string
	for _, one := range *r {
		for name, role := range roles {
			if role == one.Role {
				list = append(list, one.Module+"/"+one.Weight+"="+name)
			}
		}
		if one.Align > 0 {
			list[len(list)-1] += fmt.Sprint(":", one.Align)
		}
	}
	return strings.Join(list, ",")
}

// Set implements flag.Value.
func (r *shardRules) Set(text string) error {
	*r = nil
	for one := range strings.SplitSeq(text, ",") {
		pattern, kind, _ := strings.Cut(one, "=")
		module, weight, _ := strings.Cut(pattern, "/")
		name, align, aligned := strings.Cut(kind, ":")
		role, known := roles[name]
		if module == "" || weight == "" || !known {
			return fmt.Errorf("%q is not a module/weight=role, such as mlp.experts/down_proj=grouped or */*norm=plain", one)
		}
		rule := parallel.ShardRule{Module: module, Weight: weight, Role: role}
		if aligned {
			var err error
			if rule.Align, err = strconv.ParseInt(align, 10, 64); err != nil || rule.Align < 1 {
				return fmt.Errorf("%q: %q is not a positive number of elements", one, align)
			}
		}
		*r = append(*r, rule)
	}
	return nil
}
