package acl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goascend/cann/acl"
)

// A graph queues recorded work with one call. Its input comes from page-locked memory, which the
// program fills before each replay.
func ExampleStream_Capture() {
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
	in, err := dev.MallocHost(4)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	buf, err := dev.Malloc(4)
	if err != nil {
		log.Fatal(err)
	}
	defer buf.Close()

	g, err := st.Capture(ctx, acl.CaptureThreadLocal, func() error {
		return errors.Join(st.Memset(buf, 7, 4), st.Copy(buf, in, 2))
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for i := range 2 {
		copy(in.Bytes(), []byte{byte(i), byte(i + 1)})
		back := make([]byte, 4)
		fmt.Println(errors.Join(g.Replay(st), acl.CopyFromDevice(ctx, st, back, buf)), back)
	}
	_, err = st.Capture(ctx, acl.CaptureThreadLocal, func() error { return st.Synchronize(ctx) })
	fmt.Println(errors.Is(err, acl.ErrCapture))
	// Output:
	// <nil> [0 1 7 7]
	// <nil> [1 2 7 7]
	// true
}
