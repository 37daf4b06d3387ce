package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/simulate"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops"
)

// simulation holds the flags of a training that is priced and not run.
type simulation struct {
	chip, plan string // of -simulate and -plan
	world      int
	search     bool
	trace      string
	layers     int // of the model, the last ones, in the place of all; 0 for all
}

// notSimulated are flags that would do nothing: no text is read, no file is written, and graphs are not followed.
const notSimulated = "data loss steps pack save save-every keep auto-resume resume export eval eval-every eval-batches log metrics tensorboard profile v tokenize compare graph ranks device merge adapter detect-anomaly flight watchdog strict"

func (s *simulation) flags(f *command.Flags) {
	f.Group("Estimates, without a device")
	f.StringVar(&s.chip, "simulate", "", "train nothing: follow two steps of a rank of each pipeline stage with shapes alone, and print how long a step takes on devices of this `chip`, such as Ascend910B2 or Ascend910_93, or of a FILE.json like those in examples/simulate/chips, and what memory it needs; -model FOLDER needs its config.json only")
	f.StringVar(&s.plan, "plan", "", "train nothing: print what memory a rank of each pipeline stage needs on devices of this `chip`, or FILE.json, and if it has less, fail and print what would fit")
	f.IntVar(&s.world, "world", 1, "with -simulate or -plan, number of `ranks` of the job")
	f.BoolVar(&s.search, "search", false, "with -simulate, try the layouts of -world ranks and list the ten fastest that fit; flags of the layout and of memory are not taken into account")
	f.StringVar(&s.trace, "simulate-trace", "", "with -simulate, write the second step as a trace to this `file`, for Perfetto")
}

// on reports whether nothing is trained.
func (s simulation) on() bool { return s.chip != "" || s.plan != "" }

// rehearsal holds the schedule and the memory of one layout.
type rehearsal struct {
	options  options
	chip     simulate.Chip
	config   model.Config
	layout   string
	stages   []stage
	schedule []simulate.Entry
	places   map[string][]int // of the communicators
	ranks    map[int]int      // by device
	// operations and tokens count a step of all ranks.
	operations float64
	tokens     int
}

// stage is the memory of a rank of a pipeline stage, in bytes.
type stage struct {
	rank          int
	held          model.Held
	between       int // in use between steps
	peaks         model.Peaks
	reserved      int // by the allocator, at most
	communicators int
}

// need returns the bytes that the rank needs on a chip.
func (s stage) need(c simulate.Chip) int { return s.reserved + s.communicators*c.Communicator }

// simulator runs trainings on the emulator while it computes nothing.
type simulator struct {
	chip   simulate.Chip
	folder string
	file   *os.File // the schedule
}

// newSimulator sets up the emulator, whose settings are those of the process: as many devices as stages, with so many bytes of memory.
func newSimulator(chip simulate.Chip, stages, memory int) (*simulator, error) {
	folder, err := os.MkdirTemp("", "trainstep")
	if err != nil {
		return nil, err
	}
	s := &simulator{chip: chip, folder: folder}
	debug.SetGCPercent(400) // a schedule is much garbage, and needs little memory
	path := filepath.Join(folder, "schedule")
	for name, value := range map[string]string{
		"CANN_EMU_SCHEDULE": path, "CANN_EMU_SOC": chip.SoC, "CANN_EMU_DEVICES": strconv.Itoa(stages),
		"CANN_EMU_MEMORY": strconv.Itoa(memory),
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close removes the schedule.
func (s *simulator) Close() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

// errTooLarge is the error of a training that needs more memory than it may have.
var errTooLarge = errors.New("it does not fit")

// skip goes to the end of the schedule.
func (s *simulator) skip() error {
	_, err := s.file.Seek(0, io.SeekEnd)
	return err
}

// rehearse follows the training of a rank of some pipeline stages, or of all. If a limit is not 0, it ends with errTooLarge when a rank needs more bytes.
func (s *simulator) rehearse(ctx context.Context, o options, limit int, some ...int) (r *rehearsal, err error) {
	stages := max(o.layout.PP, 1)
	if o.simulation.world%stages != 0 {
		return nil, fmt.Errorf("-world %d is not a multiple of -pp %d", o.simulation.world, stages)
	}
	r = &rehearsal{options: o, chip: s.chip, places: map[string][]int{}, ranks: map[int]int{}}
	rt, err := acl.Open(acl.Config{}, acl.WithLogger(job.Warnings()))
	if err != nil {
		return nil, err
	}
	defer job.Close(&err, rt)
	if !rt.Emulated() {
		return nil, errors.New("-simulate and -plan follow a training on the emulator: build trainstep with -tags emu")
	}
	if s.file == nil {
		if s.file, err = os.Open(filepath.Join(s.folder, "schedule")); err != nil {
			return nil, err
		}
	}
	if len(some) == 0 {
		for i := range stages {
			some = append(some, i)
		}
	}
	for _, device := range some {
		err := r.stage(ctx, rt, device, limit)
		if limit > 0 && errors.Is(err, acl.ErrOutOfMemory) {
			err = errTooLarge
		}
		if err != nil {
			return nil, errors.Join(err, s.skip())
		}
	}
	r.schedule, err = simulate.ReadSchedule(s.file)
	return r, err
}

// stage follows the training of a rank of the pipeline stage with this number, on a device with this number.
func (r *rehearsal) stage(ctx context.Context, rt *acl.Runtime, device, limit int) (err error) {
	steps := 2 // the first makes what later ones find
	if limit > 0 {
		steps = 1 // of many layouts, one each is enough to compare them
	}
	o := r.options
	stages, ulysses := max(o.layout.PP, 1), max(o.layout.Ulysses, 1)
	// The last of the ranks that share a sequence has the most to attend to, where they have consecutive parts of it.
	last := (max(o.layout.CP, 1)/ulysses - 1) * ulysses * max(o.layout.TP, 1)
	rank := device*o.simulation.world/stages + last
	group, err := world.Simulated(rank, o.simulation.world)
	if err != nil {
		return err
	}
	defer job.Close(&err, group)
	dev, err := rt.Device(device)
	if err != nil {
		return err
	}
	defer job.Close(&err, dev)
	st, err := dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	defer job.Close(&err, st)
	o.dtype = o.elementType(false)
	env := ops.EnvOf(dev)
	env.HF32 = o.dtype == "hf32"
	reg, err := ops.NewRegistry(env, ops.WithLogger(job.Warnings()))
	if err != nil {
		return err
	}
	defer job.Close(&err, reg)
	ranks, err := model.Join(ctx, st, group, o.layout)
	if err != nil {
		return err
	}
	defer job.Close(&err, ranks)
	t, err := newTrainer(ctx, o, st, reg, ranks, zeroCorpus(o.seq))
	if err != nil {
		return err
	}
	defer job.Close(&err, t)
	r.config, r.layout = t.model.Config, ranks.String()
	a := dev.Allocator()
	m := stage{rank: rank, held: t.optimizer.Held(), communicators: len(ranks.Comms())}
	if limit > 0 && m.held.Total()+m.communicators*r.chip.Communicator > limit {
		return errTooLarge
	}
	for range steps {
		m.between = max(m.between, a.Stats().InUse)
		if _, _, err := t.step(ctx); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	m.peaks, m.reserved = t.model.Peaks(), a.Stats().PeakReserved
	r.stages = append(r.stages, m)
	r.operations, r.tokens, r.ranks[device] = t.operations, t.tokens, rank
	for name, places := range ranks.Places() {
		r.places[name] = places
	}
	if limit > 0 && m.need(r.chip) > limit {
		return errTooLarge
	}
	return nil
}

// zeroCorpus is a text of zeros, which has the vocabulary of bytes for a new model.
func zeroCorpus(length int) *corpus {
	return &corpus{tokens: make([]int32, length+2), vocab: 256, source: "nothing"}
}
