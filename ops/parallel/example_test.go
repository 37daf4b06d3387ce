package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

// Two ranks divide a linear layer by its inputs: each multiplies the features that it has with
// its columns of the weight, and both get the sum.
func ExampleTensorParallel_RowLinear() {
	ctx := context.Background()
	features := [][]float32{{1, 2}, {3, 4}}
	weights := [][]float32{{1, 1, 1, 0}, {1, 1, 0, 1}} // of [[1 1 1 1] [1 0 0 1]]

	rt, err := acl.Open(acl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	var streams []*acl.Stream
	for id := range 2 {
		dev, err := rt.Device(id)
		if err != nil {
			log.Fatal(err)
		}
		defer dev.Close()
		st, err := dev.NewStream()
		if err != nil {
			log.Fatal(err)
		}
		defer st.Close()
		streams = append(streams, st)
	}
	comms, err := hccl.JoinAll(ctx, streams...)
	if err != nil {
		log.Fatal(err)
	}

	results := make([][]float32, 2)
	rank := func(r int) error {
		st := streams[r]
		reg, err := ops.NewRegistry(ops.EnvOf(st.Device()))
		if err != nil {
			return err
		}
		layer := parallel.NewTensorParallel(reg, comms[r], false)
		err = aclnn.Compose(st, func(s *aclnn.Scope) {
			x, w, y := s.Tensor(aclnn.Float32, 1, 2), s.Tensor(aclnn.Float32, 2, 2), s.Tensor(aclnn.Float32, 1, 2)
			s.Do(func() error { return aclnn.CopyToDevice(ctx, st, x, features[r]) })
			s.Do(func() error { return aclnn.CopyToDevice(ctx, st, w, weights[r]) })
			s.Do(func() error { return layer.RowLinear(ctx, st, &ops.LinearArgs{X: x, Weight: w, Out: y}) })
			s.Do(func() (err error) {
				results[r], err = aclnn.ToSlice[float32](ctx, st, y)
				return err
			})
		})
		return errors.Join(err, comms[r].Close(), reg.Close())
	}
	var ranks sync.WaitGroup
	for r := range 2 {
		ranks.Go(func() {
			if err := rank(r); err != nil {
				log.Print(err)
			}
		})
	}
	ranks.Wait()
	fmt.Println(results)
	// Output: [[10 5] [10 5]]
}
