package acl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// A program counts its launches by operator, and the bytes that it copies.
func ExampleRuntime_Observe() {
	var mu sync.Mutex
	launches, bytes := map[string]int{}, 0
	ctx := context.Background()
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	stop, err := rt.Observe(func(c acl.Call) {
		mu.Lock()
		defer mu.Unlock()
		switch c.Kind {
		case acl.CallLaunch:
			launches[c.Name]++
		case acl.CallCopy:
			bytes += c.Bytes
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	st, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	x, err := aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{1, 4, 9}, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	back := make([]float32, 3)
	err = errors.Join(
		aclnn.InplaceSqrt(st, aclnn.InplaceSqrtParams{Self: x}),
		aclnn.InplaceNeg(st, aclnn.InplaceNegParams{Self: x}),
		aclnn.CopyFromDevice(ctx, st, back, x),
	)
	fmt.Println(back, err)
	fmt.Println(launches, bytes)
	// Output:
	// [-1 -2 -3] <nil>
	// map[aclnnInplaceNeg:1 aclnnInplaceSqrt:1] 24
}
