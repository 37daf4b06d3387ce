package hccl

import "context"

var errNoContext = invalid("the context.Context is nil; context.Background() never ends")

// await makes a call that HCCL cannot cancel, and waits for it until ctx ends. Then the call continues
// in the background, and late receives its result.
func await[T any](ctx context.Context, call func() (T, error), late func(T)) (result T, ended bool, err error) {
	if ctx.Err() != nil {
		return result, true, nil
	}
	if ctx.Done() == nil {
		result, err = call()
		return result, false, err
	}
	type outcome struct {
		result T
		err    error
	}
	made := make(chan outcome)
	go func() {
		result, err := call()
		select {
		case made <- outcome{result, err}:
		case <-ctx.Done():
			late(result)
		}
	}()
	select {
	case o := <-made:
		return o.result, false, o.err
	case <-ctx.Done():
		return result, true, nil
	}
}
