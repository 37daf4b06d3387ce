package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/command"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl"
)

const about = `hccltest measures HCCL's collectives over a range of sizes and checks their results. Under a launcher
(torchrun, Open MPI, Slurm, examples/launch) each process is a rank; without a launcher all ranks are in
this process, each with a device of its own.`

var samples = []string{
	"go run -tags emu ./examples/hccltest -p 4 -op all_reduce,all_gather -b 4K -e 64M -f 4",
	"go run -tags emu ./examples/hccltest -p 2 -op all -d all -b 5000 -w 1 -n 1",
	"go run ./examples/launch -n 8 -- ./hccltest -op all -d bfloat16",
}

// options are the flags.
type options struct {
	operations      []*operation
	first, last     int64 // bytes
	step            int64 // added to the size if factor is 0
	factor          int64
	dtypes          []aclnn.DType
	reduce          hccl.ReduceOp
	root            int
	ranks           int // number of ranks in this process
	warmup, repeats int
	check           bool
	watching        job.Watching
}

var dtypes = []aclnn.DType{
	aclnn.Float32, aclnn.Float16, aclnn.BFloat16, aclnn.Float64, aclnn.Int8, aclnn.Int16, aclnn.Int32, aclnn.Int64,
	aclnn.Uint8, aclnn.Uint16, aclnn.Uint32, aclnn.Uint64,
}

var reductions = []hccl.ReduceOp{hccl.Sum, hccl.Prod, hccl.Max, hccl.Min}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := command.New(out, "hccltest [flags]", about, samples...)
	f.Group("What to run")
	names := f.String("op", "all_reduce", "`collectives`, separated by commas, or all: "+strings.Join(operationNames(), " "))
	types := f.String("d", "float32", "element `types`, separated by commas, or all")
	reduce := f.String("o", "sum", "`operation` of the collectives that reduce: sum, prod, max, min")
	f.IntVar(&o.root, "r", 0, "root `rank` of the collectives that have one")
	f.IntVar(&o.ranks, "p", 0, "`ranks` in this process, without a launcher (default: the number of its devices)")
	f.Group("Sizes")
	first := f.String("b", "64M", "smallest `size` in bytes, with K, M or G")
	last := f.String("e", "", "largest `size` (default: -b)")
	step := f.String("i", "", "`bytes` from one size to the next (default: a tenth of the range)")
	f.Int64Var(&o.factor, "f", 0, "`factor` from one size to the next, in place of -i")
	f.Group("Timing and checks")
	f.IntVar(&o.warmup, "w", 10, "`calls` before the timed calls, at least 1")
	f.IntVar(&o.repeats, "n", 20, "timed `calls`")
	f.BoolVar(&o.check, "c", true, "check the results")
	f.Group("Faults")
	if err := o.watching.Flags(f.FlagSet); err != nil {
		return o, err
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.operations, err = choose("-op", *names, operations, func(p *operation) string { return p.name }); err != nil {
		return o, err
	}
	if o.dtypes, err = choose("-d", *types, dtypes, aclnn.DType.String); err != nil {
		return o, err
	}
	chosen, err := choose("-o", *reduce, reductions, hccl.ReduceOp.String)
	if err != nil {
		return o, err
	}
	o.reduce = chosen[0]
	if *last == "" {
		*last = *first
	}
	for text, n := range map[*string]*int64{first: &o.first, last: &o.last, step: &o.step} {
		if *n, err = parseSize(*text); err != nil {
			return o, err
		}
	}
	switch {
	case o.first < 1 || o.last < o.first:
		return o, fmt.Errorf("sizes from %d to %d; the smallest is at least 1 and not above the largest", o.first, o.last)
	case o.factor == 1 || o.factor < 0:
		return o, fmt.Errorf("-f %d; a factor is at least 2", o.factor)
	case o.repeats < 1 || o.warmup < 0 || o.ranks < 0 || o.root < 0:
		return o, errors.New("-n is at least 1, -w, -p and -r are not negative")
	}
	if o.step == 0 {
		o.step = max(1, (o.last-o.first)/10)
	}
	return o, nil
}

// choose returns the elements of all that names lists.
func choose[T any](flag, names string, all []T, name func(T) string) (chosen []T, err error) {
	if names == "all" {
		return all, nil
	}
	for n := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(x T) bool { return name(x) == n })
		if i < 0 {
			var known []string
			for _, x := range all {
				known = append(known, name(x))
			}
			return nil, fmt.Errorf("%s %q is none of %s", flag, n, strings.Join(known, " "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// parseSize reads a number of bytes with a suffix; an empty text is 0.
func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	digits := strings.TrimRight(s, "KMG")
	shift := map[string]int{"": 0, "K": 10, "M": 20, "G": 30}
	by, known := shift[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > 1<<62>>by {
		return 0, fmt.Errorf("%q is not a size such as 512, 4K or 64M", s)
	}
	return n << by, nil
}

// sizes returns the sizes to measure.
func (o options) sizes() (list []int64) {
	for n := o.first; n <= o.last; {
		list = append(list, n)
		if o.factor > 0 {
			n *= o.factor
		} else {
			n += o.step
		}
	}
	return list
}

func main() {
	o, err := parseFlags(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // the second signal ends the program
		err = run(ctx, o, os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hccltest:", err)
		os.Exit(1)
	}
}
