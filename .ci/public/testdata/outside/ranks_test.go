package service_test

import (
	"slices"
	"sync"
	"testing"

	"example.com/service"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/hccl/world"
)

func TestSum(t *testing.T) {
	rt := acltest.Open(t)
	const ranks = 2
	groups, err := world.LocalGroups(t.Context(), ranks, world.GroupConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for rank, group := range groups {
		st := acltest.Stream(t, acltest.Device(t, rt, rank))
		all.Go(func() {
			defer group.Close()
			sum, largest, err := service.Sum(t.Context(), st, group, []float32{float32(rank), 10})
			if err != nil {
				t.Error(err)
			} else if !slices.Equal(sum, []float32{1, 20}) || largest != 1 {
				t.Errorf("rank %d: %v, %d", rank, sum, largest)
			}
		})
	}
	all.Wait()
}
