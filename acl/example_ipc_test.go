package acl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goascend/cann/acl"
)

// One process shares memory by a key, which it sends to another one; that opens it with Import(key, 2<<20).
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
	key, err := weights.Share() // CANN 8.1 does not have it
	fmt.Println(len(key) > 0 || errors.Is(err, acl.ErrNotSupported))
	// Output: true
}
