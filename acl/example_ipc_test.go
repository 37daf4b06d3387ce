package acl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goascend/cann/acl"
)

// One process shares memory by a key, which it sends to another one; that opens it with Import.
func ExampleBuffer_Share() {
	ctx := context.Background()
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
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
	weights, err := dev.MallocDirect(2<<20, acl.HugeFirst)
	if err != nil {
		log.Fatal(err)
	}
	defer weights.Close()
	if err := acl.CopyToDevice(ctx, st, weights, []float32{1, 2, 3}); err != nil {
		log.Fatal(err)
	}
	key, err := weights.Share() // for Import(key, 2<<20) of another process
	fmt.Println(len(key) > 0, err)
	// Output: true <nil>
}
