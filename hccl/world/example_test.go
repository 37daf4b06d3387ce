package world_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/goascend/cann/hccl/world"
)

// Ranks of one process exchange values of the host. Ranks that a launcher has started call
// world.Detect and world.Join instead of LocalGroups.
func ExampleAllGather() {
	ctx := context.Background()
	groups, err := world.LocalGroups(ctx, 3, world.GroupConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var ranks sync.WaitGroup
	for _, g := range groups {
		ranks.Go(func() {
			defer g.Close()
			losses, err := world.AllGather(ctx, g, float64(g.Rank())/2)
			if g.Rank() == 0 {
				fmt.Println(losses, err)
			}
		})
	}
	ranks.Wait()
	// Output: [0 0.5 1] <nil>
}

// Of eight ranks two divide each layer (tp) and two the layers (pp), so that there are two copies
// of the model (dp). With which ranks does rank 5 do what?
func ExampleLayout() {
	mesh, err := world.Layout{TP: 2, PP: 2}.Dense(5, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(mesh)
	for _, axis := range []string{"tp", "pp", "dp"} {
		ranks, err := mesh.Ranks(axis)
		fmt.Println(axis, ranks, err)
	}
	// Output:
	// tp2 cp1 dp2 pp2
	// tp [4 5] <nil>
	// pp [1 5] <nil>
	// dp [5 7] <nil>
}
