package acl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goascend/cann/acl"
)

// Host values go to a device and come back. What is queued on a stream runs in order, and only
// the copy to the host waits.
func Example() {
	ctx := context.Background()
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		log.Fatal(err) // without CANN it lists what was tried
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
	buf, err := st.Malloc(4 * 4)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close()

	back := make([]float32, 4)
	err = errors.Join(
		acl.CopyToDevice(ctx, st, buf, []float32{1, 2, 3, 4}),
		acl.CopyFromDevice(ctx, st, back, buf),
	)
	fmt.Println(back, err)
	// Output: [1 2 3 4] <nil>
}

// Errors have CANN's code and a group, which a program can act on.
func ExampleError() {
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

	_, err = dev.Malloc(1 << 40)
	var e *acl.Error
	fmt.Println(errors.Is(err, acl.ErrOutOfMemory), errors.As(err, &e) && e.Code != 0)
	_, err = rt.Device(1000)
	fmt.Println(errors.Is(err, acl.ErrInvalidArgument))
	// Output:
	// true true
	// true
}
