package smoke

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// gauge reports measured numbers.
type gauge func(message)

func (g gauge) is(name string, value float64, unit string) {
	g(message{Measure: &Measure{name, value, unit}})
}

// median is the middle of some durations in microseconds.
func median(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Nanoseconds()) / 1e3
}

// launches measures what the host pays for an operator: the first launch of a shape, whose executor
// aclnn must make, and later ones.
func launches(ctx context.Context, _ *Config, report func(message)) error {
	return onDevice(0, func(_ *acl.Device, st *acl.Stream) (err error) {
		const shapes, later = 20, 400
		out := gauge(report)
		var cold, warm, round []time.Duration
		for i := range int64(shapes) {
			x, failed := aclnn.New(st, aclnn.BFloat16, 16+i, 64)
			if failed != nil {
				return failed
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			launch := func() error {
				return aclnn.InplaceAdds(st, aclnn.InplaceAddsParams{Self: x, Other: aclnn.Float(1), Alpha: aclnn.Float(1)})
			}
			if err := errors.Join(st.Memset(x.Buffer(), 0, x.Buffer().Size()), st.Synchronize(ctx)); err != nil {
				return err
			}
			begin := time.Now()
			if err := launch(); err != nil {
				return err
			}
			cold = append(cold, time.Since(begin))
			if i < shapes-1 {
				continue
			}
			for range later {
				begin = time.Now()
				if err := launch(); err != nil {
					return err
				}
				warm = append(warm, time.Since(begin))
			}
			if err := st.Synchronize(ctx); err != nil {
				return err
			}
			for range later / 8 {
				begin = time.Now()
				if err := errors.Join(launch(), st.Synchronize(ctx)); err != nil {
					return err
				}
				round = append(round, time.Since(begin))
			}
		}
		out.is("launch, the first of the process", float64(cold[0].Nanoseconds())/1e3, "µs")
		out.is("launch, the first of a shape", median(cold[1:]), "µs")
		out.is("launch, later", median(warm), "µs")
		out.is("launch and wait", median(round), "µs")
		return st.Synchronize(ctx)
	})
}

// Sizes of copies: the one shows the cost of a copy, the other the bandwidth.
const (
	smallCopy = 4 << 10
	largeCopy = 32 << 20
)

// copies measures copies between host, device and, where there is another, the next device.
func copies(ctx context.Context, _ *Config, report func(message)) error {
	return onDevice(0, func(dev *acl.Device, st *acl.Stream) (err error) {
		out := gauge(report)
		from, err := st.Malloc(largeCopy)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, from.Close()) }()
		to, err := st.Malloc(largeCopy)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		locked, err := dev.MallocHost(largeCopy)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, locked.Close()) }()
		pageable := make([]byte, largeCopy)
		if err := errors.Join(st.Memset(from, 1, largeCopy), st.Memset(to, 2, largeCopy), st.Synchronize(ctx)); err != nil {
			return err
		}
		queued := func(dst, src acl.Memory) func(n int) error {
			return func(n int) error { return errors.Join(st.Copy(dst, src, n), st.Synchronize(ctx)) }
		}
		kinds := []struct {
			name string
			copy func(n int) error
		}{
			{"page-locked host to device", queued(from, locked)},
			{"device to page-locked host", queued(locked, from)},
			{"device to itself", queued(to, from)},
			{"Go slice to device", func(n int) error { return acl.CopyToDevice(ctx, st, from, pageable[:n]) }},
			{"device to Go slice", func(n int) error { return acl.CopyFromDevice(ctx, st, pageable[:n], from) }},
		}
		for _, k := range kinds {
			if err := out.copy(k.name, k.copy); err != nil {
				return err
			}
		}
		return out.peer(ctx, dev, st, from)
	})
}

// copy measures a copy of both sizes.
func (g gauge) copy(name string, run func(n int) error) error {
	for _, n := range []int{smallCopy, largeCopy} {
		var took []time.Duration
		for range 7 {
			begin := time.Now()
			if err := run(n); err != nil {
				return err
			}
			took = append(took, time.Since(begin))
		}
		if us := median(took); n == smallCopy {
			g.is("copy of 4 KiB, "+name, us, "µs")
		} else {
			g.is("copy of 32 MiB, "+name, float64(n)/max(us, 1e-3)/1e3, "GB/s")
		}
	}
	return nil
}

// peer measures copies to the next device, if there is one that this one can reach.
func (g gauge) peer(ctx context.Context, dev *acl.Device, st *acl.Stream, from *acl.Buffer) (err error) {
	n, err := dev.Runtime().DeviceCount()
	if err != nil || n < 2 {
		return err
	}
	next, err := dev.Runtime().Device(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.Close()) }()
	if can, err := dev.CanAccessPeer(next); err != nil || !can {
		return err
	}
	if err := dev.EnablePeerAccess(next); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.DisablePeerAccess(next)) }()
	to, err := next.Malloc(largeCopy)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return g.copy("device 0 to device 1", func(n int) error { return errors.Join(st.Copy(to, from, n), st.Synchronize(ctx)) })
}
