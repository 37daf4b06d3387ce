package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// reference is a training run of the golden data, in memory.
type reference struct {
	name        string
	run         *golden.Training
	cfg         model.Config
	batches     []model.Batch
	init, final map[string][]float32
}

// TestConcurrentTrainings: 64 goroutines train the four families of models on four devices at once, with the
// emulator's hazards on, and each gets the losses, the norms and at last the weights of the golden data.
func TestConcurrentTrainings(t *testing.T) {
	if testing.Short() || os.Getenv("CANN_TEST_CONCURRENT") == "" {
		t.Skip("64 trainings take minutes: set CANN_TEST_CONCURRENT=1, and use -race")
	}
	acltest.Rerun(t, func(t *testing.T) {
		const goroutines, chips = 64, 4
		var families []*reference
		for _, architecture := range []string{"Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "Qwen3_5ForCausalLM"} {
			families = append(families, load(t, golden.Models(t, architecture)[0]))
		}
		rt := acltest.Open(t)
		var devices []*acl.Device
		for id := range chips {
			devices = append(devices, acltest.Device(t, rt, id))
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range goroutines {
			all.Go(func() {
				r := families[i/chips%len(families)]
				assert.NoError(t, r.train(t.Context(), devices[i%chips]), "goroutine %d, %s on device %d", i, r.name, i%chips)
			})
		}
		all.Wait()
		t.Logf("%d trainings took %v", goroutines, time.Since(start).Round(time.Second))
		for _, dev := range devices {
			assert.Zero(t, dev.Allocator().Stats().InUse)
		}
	}, "CANN_EMU_DEVICES=4", "CANN_EMU_SANITIZE=memory,race", "CANN_EMU_COLD_PREPARE=50us", "CANN_EMU_THREAD_START=2ms")
}

// load reads all that a training run needs, because only the test's goroutine may fail.
func load(t *testing.T, name string) *reference {
	run := golden.Model(t, name)
	cfg, err := model.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	r := &reference{name: name, run: run, cfg: cfg, init: map[string][]float32{}, final: map[string][]float32{}}
	for _, weight := range run.Sub("init").Names() {
		r.init[weight], r.final[weight] = run.Sub("init").Float32(weight), run.Sub("final").Float32(weight)
	}
	for step := range run.Losses {
		r.batches = append(r.batches, batch(run, step))
	}
	return r
}

// train repeats the run on a stream of its own.
func (r *reference) train(ctx context.Context, dev *acl.Device) (err error) {
	closing := func(c interface{ Close() error }) { err = errors.Join(err, c.Close()) }
	st, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer closing(st)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return err
	}
	defer closing(reg)
	m, err := model.New(st, reg, r.cfg, aclnn.Float32)
	if err != nil {
		return err
	}
	defer closing(m)
	for _, p := range m.Parameters() {
		if err := m.Set(ctx, p, r.init[p.Name]); err != nil {
			return err
		}
	}
	o := r.run.Optimizer
	opt, err := model.NewOptimizer(m, model.AdamW{
		LR: o.LR, Beta1: o.Betas[0], Beta2: o.Betas[1], Epsilon: o.Eps, WeightDecay: o.WeightDecay, MaxNorm: o.ClipGradNorm,
	})
	if err != nil {
		return err
	}
	defer closing(opt)
	for step, b := range r.batches {
		loss, err := m.Gradients(ctx, b)
		if err != nil {
			return err
		}
		norm, err := opt.Step(ctx)
		switch {
		case err != nil:
			return err
		case math.Abs(loss/r.run.Losses[step]-1) > 1e-6:
			return fmt.Errorf("the loss of step %d is %v and should be %v", step, loss, r.run.Losses[step])
		case math.Abs(norm/r.run.GradNorms[step]-1) > 1e-4:
			return fmt.Errorf("the gradient norm of step %d is %v and should be %v", step, norm, r.run.GradNorms[step])
		}
	}
	for _, p := range m.Parameters() {
		got, err := m.Get(ctx, p)
		if err != nil {
			return err
		}
		want, sum := r.final[p.Name], 0.0
		for i := range want {
			sum += (float64(got[i]) - float64(want[i])) * (float64(got[i]) - float64(want[i]))
		}
		if far := math.Sqrt(sum / float64(len(want))); far > 1e-5 || len(got) != len(want) {
			return fmt.Errorf("%d weights of %s are %v from those of the reference", len(got), p.Name, far)
		}
	}
	return nil
}
