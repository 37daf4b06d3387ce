package hccl_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// Two devices of this process add up a tensor each. A rank in a process of its own gets its
// communicator from Join instead of JoinAll; the rest is the same.
func ExampleComm_AllReduce() {
	ctx := context.Background()
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

	sums := make([][]float32, len(comms))
	var ranks sync.WaitGroup
	for rank, comm := range comms {
		ranks.Go(func() { // a collective's ranks are goroutines: the first waits for the others
			st := streams[rank]
			err := aclnn.Compose(st, func(s *aclnn.Scope) {
				x := s.Tensor(aclnn.Float32, 2)
				s.Do(func() error { return aclnn.CopyToDevice(ctx, st, x, []float32{float32(rank), 10}) })
				s.Do(func() error { return comm.AllReduce(st, x, x, hccl.Sum) })
				s.Do(func() (err error) {
					sums[rank], err = aclnn.ToSlice[float32](ctx, st, x)
					return err
				})
			})
			if err != nil {
				log.Print(err)
			}
			if err := comm.Close(); err != nil {
				log.Print(err)
			}
		})
	}
	ranks.Wait()
	fmt.Println(sums)
	// Output: [[1 20] [1 20]]
}
