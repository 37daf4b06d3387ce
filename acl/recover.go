package acl

import (
	"context"
	"errors"
)

// Recover makes the device usable after work has failed. It waits for the streams of the device, in
// all contexts, until their work has ended, and takes the faults that no wait has reported yet. So each
// fault is reported once: by the wait that came first, or here, with the operators and the stream that it
// concerns.
//
// A nil err means that every stream works as before; only the results of the work that failed are
// lost, and of the work queued after it. Otherwise err reports with Damage what has to be closed, with
// everything that was made in it, and made again: the context (DamageContext) or the device
// (DamageDevice), whose last Close resets it. If ctx ends first, err matches ctx.Err(), and Recover
// can be called again.
//
//	var e *acl.Error
//	if errors.As(err, &e) && e.Damage() >= acl.DamageWork {
//		others, err := dev.Recover(ctx) // what else has failed
//		// err == nil: launch the lost work again
//	}
func (d *Device) Recover(ctx context.Context) (others []*Error, err error) {
	const op = "Device.Recover"
	if err := d.usable(op); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, noContext(op)
	}
	var lasting []error
	note := func(err error) {
		var e *Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Damage() == DamageWork:
			others = append(others, e)
		default:
			lasting = append(lasting, err)
		}
	}
	for _, q := range d.scope.chip.queues() {
		if q.member.Load() != nil {
			continue // it captures; nothing of it runs
		}
		interrupted, err := q.settle(ctx, op)
		if interrupted {
			return others, err
		}
		note(err)
	}
	if len(lasting) > 0 {
		return others, errors.Join(lasting...)
	}
	// Streams of other code in the process are the device's too. A second failure is not one of work
	// that was queued before: the device cannot recover by itself.
	interrupted, err := d.scope.waitDevice(ctx)
	if interrupted {
		return others, d.scope.interrupted(op, ctx)
	}
	note(d.scope.faulty(err))
	if err != nil {
		if interrupted, err = d.scope.waitDevice(ctx); interrupted {
			return others, d.scope.interrupted(op, ctx)
		}
		if err != nil {
			lasting = append(lasting, d.scope.fault(err))
		}
	}
	return others, errors.Join(lasting...)
}
