package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onRanks runs body on the ranks of a group.
func onRanks(t *testing.T, n int, body func(ctx context.Context, g *world.Group) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups, err := world.LocalGroups(ctx, n, world.GroupConfig{})
	require.NoError(t, err)
	return job.Each(ctx, groups, body)
}

// weights are the tensors of a set of step: a and b are cut over the ranks, c is of the last rank.
func weights(step, rank, ranks int) (tensors []checkpoint.Tensor) {
	part := func(name string, axis int, shape ...int64) {
		p := checkpoint.Part{Name: name, Shape: shape, Cut: checkpoint.Cut{Axis: axis, Index: int64(rank), Of: int64(ranks)}}
		tensors = append(tensors, checkpoint.Tensor{Part: p, Values: cut(p, value(step, name, shape))})
	}
	part("a", 0, 4, 3)
	part("b", 1, 2, 8, 2)
	if rank == ranks-1 {
		p := checkpoint.Part{Name: "c", Shape: []int64{5}}
		tensors = append(tensors, checkpoint.Tensor{Part: p, Values: value(step, "c", p.Shape)})
	}
	return tensors
}

// value is the whole tensor.
func value(step int, name string, shape []int64) []float32 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(step*1000+i) + float32(name[0])/256
	}
	return values
}

// cut is the part of a whole tensor, by its definition.
func cut(p checkpoint.Part, whole []float32) (values []float32) {
	inner := int64(1)
	for _, d := range p.Shape[p.Axis+1:] {
		inner *= d
	}
	for i, v := range whole {
		if at := int64(i) / inner % p.Shape[p.Axis]; p.Of < 2 || at*p.Of/p.Shape[p.Axis] == p.Index {
			values = append(values, v)
		}
	}
	return values
}

// save makes sets of the given steps.
func save(t *testing.T, dir string, ranks, keep int, steps ...int) {
	t.Helper()
	require.NoError(t, onRanks(t, ranks, func(ctx context.Context, g *world.Group) error {
		s, err := checkpoint.NewSaver(ctx, g, dir, keep)
		if err != nil {
			return err
		}
		for _, step := range steps {
			about := checkpoint.About{Step: step, Layout: fmt.Sprint(ranks, " ranks"), Model: json.RawMessage(`{"layers":2}`), Data: map[string]string{"seed": "1"}}
			err = errors.Join(err, s.Save(ctx, about, weights(step, g.Rank(), ranks)))
		}
		err = errors.Join(err, s.Wait())
		assert.True(t, strings.HasPrefix(filepath.Base(s.Saved()), fmt.Sprintf("step-%08d-", steps[len(steps)-1])), s.Saved())
		return errors.Join(err, s.Close(), s.Close())
	}))
}

// readAll reads whole tensors and their parts.
func readAll(set *checkpoint.Set) error {
	for name, shape := range map[string][]int64{"a": {4, 3}, "b": {2, 8, 2}, "c": {5}} {
		whole := value(set.About().Step, name, shape)
		for axis, size := range shape {
			for of := int64(0); of <= size; of++ {
				if of > 0 && size%of != 0 {
					continue
				}
				for index := range max(of, 1) {
					p := checkpoint.Part{Name: name, Shape: shape, Cut: checkpoint.Cut{Axis: axis, Index: index, Of: of}}
					got, err := set.Read(p)
					if err != nil {
						return err
					}
					if want := cut(p, whole); fmt.Sprint(got) != fmt.Sprint(want) {
						return fmt.Errorf("%v is %v and not %v", p, got, want)
					}
				}
			}
		}
	}
	return nil
}

func folders(t *testing.T, dir string) (names []string) {
	all, err := filepath.Glob(filepath.Join(dir, "step-*"))
	require.NoError(t, err)
	for _, path := range all {
		names = append(names, filepath.Base(path)[:len("step-00000000")])
	}
	return names
}

// TestSaveAndRead: what ranks write is read whole and in any other parts, the newest sets are kept,
// and leftovers of killed saves go with the next saver.
func TestSaveAndRead(t *testing.T) {
	for _, ranks := range []int{1, 2, 4} {
		dir := filepath.Join(t.TempDir(), "new")
		_, err := checkpoint.Open(dir)
		require.ErrorIs(t, err, checkpoint.ErrNone)
		require.False(t, checkpoint.Find(dir))
		save(t, dir, ranks, 3, 10, 20, 30, 40, 50)
		require.Equal(t, []string{"step-00000030", "step-00000040", "step-00000050"}, folders(t, dir))
		require.True(t, checkpoint.Find(dir))
		require.NoError(t, onRanks(t, ranks, func(ctx context.Context, g *world.Group) error {
			set, err := checkpoint.Agree(ctx, g, dir)
			if err != nil {
				return err
			}
			assert.Equal(t, 50, set.About().Step)
			assert.Equal(t, map[string]string{"seed": "1"}, set.About().Data)
			return errors.Join(readAll(set), set.Close())
		}))
		set, err := checkpoint.Open(filepath.Join(dir, folderOf(t, dir, 30)))
		require.NoError(t, err)
		require.NoError(t, readAll(set))
		_, err = set.Read(checkpoint.Part{Name: "a", Shape: []int64{3, 4}})
		require.ErrorIs(t, err, checkpoint.ErrShape)
		_, err = set.Read(checkpoint.Part{Name: "d", Shape: []int64{3}})
		require.ErrorIs(t, err, checkpoint.ErrMissing)
		_, err = set.Read(checkpoint.Part{Name: "a", Shape: []int64{4, 3}, Cut: checkpoint.Cut{Of: 3}})
		require.ErrorContains(t, err, "impossible part")
		require.NoError(t, set.Close())

		// A killed save, and a killed removal, have no manifest.
		require.NoError(t, os.Mkdir(filepath.Join(dir, "step-00000060-00000000"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "step-00000060-00000000", ".rank-0.tmp"), nil, 0o666))
		require.NoError(t, os.Remove(filepath.Join(dir, folderOf(t, dir, 30), "manifest.json")))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "notes"), 0o777))
		save(t, dir, ranks, 3, 55)
		require.Equal(t, []string{"step-00000040", "step-00000050", "step-00000055"}, folders(t, dir))
		require.DirExists(t, filepath.Join(dir, "notes"))
	}
}

func folderOf(t *testing.T, dir string, step int) string {
	all, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("step-%08d-*", step)))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return filepath.Base(all[0])
}

// flips is how many bits TestBitFlips flips; CHECKPOINT_FLIPS sets another number.
func flips(t *testing.T) int {
	text := os.Getenv("CHECKPOINT_FLIPS")
	if text == "" {
		return 500
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestBitFlips: whichever bit of a set changes, it is refused; the error names the file, and the
// tensor if the bit is in one.
func TestBitFlips(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 2, 1, 7)
	folder := filepath.Join(dir, folderOf(t, dir, 7))
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	contents := map[string][]byte{}
	for _, path := range files {
		contents[path], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range flips(t) {
		path := files[i%len(files)]
		content := append([]byte(nil), contents[path]...)
		bit := rng.IntN(8 * len(content))
		content[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(path, content, 0o666))
		err := readSet(folder)
		require.ErrorContains(t, err, filepath.Base(path))
		if errors.Is(err, checkpoint.ErrMixed) { // the bit was in the id
			require.NoError(t, os.WriteFile(path, contents[path], 0o666))
			continue
		}
		require.ErrorIs(t, err, checkpoint.ErrCorrupt, "%s bit %d", path, bit)
		want := "the manifest"
		if strings.HasSuffix(path, ".safetensors") {
			want = "its header"
			if name := tensorAt(contents[path], bit/8); name != "" {
				want = "tensor " + name + ":"
			}
		}
		require.ErrorContains(t, err, want)
		require.NoError(t, os.WriteFile(path, contents[path], 0o666))
	}
	require.NoError(t, readSet(folder))
	for _, path := range files[1:] { // those of the ranks; a shorter manifest is a damaged one
		require.NoError(t, os.Truncate(path, int64(len(contents[path])-1)))
		require.ErrorContains(t, readSet(folder), filepath.Base(path))
		require.NoError(t, os.Remove(path))
		require.ErrorContains(t, readSet(folder), filepath.Base(path))
		require.NoError(t, os.WriteFile(path, contents[path], 0o666))
	}
}

// readSet reads everything in a set.
func readSet(folder string) error {
	set, err := checkpoint.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(readAll(set), set.Close())
}

// tensorAt is the tensor that has a byte of a safetensors file, or has its checksum there; "" in the
// header.
func tensorAt(content []byte, at int) string {
	length := 0
	for i := range 8 {
		length |= int(content[i]) << (8 * i)
	}
	var header map[string]struct {
		Offsets []int `json:"data_offsets"`
	}
	_ = json.Unmarshal(content[8:8+length], &header)
	for name, t := range header {
		if len(t.Offsets) == 2 && at >= 8+length+t.Offsets[0] && at < 8+length+t.Offsets[1] {
			return strings.TrimSuffix(name, ".crc32c")
		}
	}
	return ""
}

// TestMixtures: a file of another save is refused by name.
func TestMixtures(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 2, 3, 1)
	save(t, dir, 2, 3, 2)
	old, current := filepath.Join(dir, folderOf(t, dir, 1)), filepath.Join(dir, folderOf(t, dir, 2))
	const name = "rank-1-of-2.safetensors"
	content, err := os.ReadFile(filepath.Join(old, name))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(current, name), content, 0o666))
	err = readSet(current)
	require.ErrorIs(t, err, checkpoint.ErrMixed)
	require.ErrorContains(t, err, name+" is of save "+filepath.Base(old)[len("step-00000001-"):]+" at step 1")
}

func second[T any](_ T, err error) error { return err }

// TestTwoJobs: the folder of a job that saves is refused to another, and free when it has ended.
func TestTwoJobs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, onRanks(t, 1, func(ctx context.Context, g *world.Group) error {
		first, err := checkpoint.NewSaver(ctx, g, dir, 1)
		if err != nil {
			return err
		}
		err = onRanks(t, 2, func(ctx context.Context, g *world.Group) error {
			return second(checkpoint.NewSaver(ctx, g, dir, 1))
		})
		assert.ErrorContains(t, err, checkpoint.ErrBusy.Error())
		return first.Close()
	}))
	save(t, dir, 1, 1, 1)
}

// TestSaveFails: a rank that cannot write fails the save on all ranks, and the earlier set stays.
func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, 2, 1, 1)
	err := onRanks(t, 2, func(ctx context.Context, g *world.Group) error {
		s, err := checkpoint.NewSaver(ctx, g, dir, 1)
		if err != nil {
			return err
		}
		tensors := weights(2, g.Rank(), 2)
		if g.Rank() == 1 {
			tensors = append(tensors, tensors[0]) // a file cannot have two of a name
		}
		err = s.Save(ctx, checkpoint.About{Step: 2, Model: json.RawMessage("{}")}, tensors)
		err = errors.Join(err, s.Wait())
		assert.ErrorContains(t, err, "named twice")
		assert.NoError(t, s.Wait(), "an error is reported once")
		return errors.Join(err, s.Close())
	})
	require.ErrorContains(t, err, "rank 0: checkpoint: rank 1 could not save")
	set, err := checkpoint.Open(dir)
	require.NoError(t, err)
	require.Equal(t, 1, set.About().Step)
	require.NoError(t, errors.Join(readAll(set), set.Close()))
}

// TestBlocks: a weight of blocks that are divided one by one is read whole and divided otherwise.
func TestBlocks(t *testing.T) {
	const ranks = 2
	dir := t.TempDir()
	whole := checkpoint.Part{Name: "qkv", Shape: []int64{10, 2}}
	var values []float32
	for i := range 20 {
		values = append(values, float32(i))
	}
	rows := func(list ...int) (picked []float32) {
		for _, r := range list {
			picked = append(picked, values[2*r:2*r+2]...)
		}
		return picked
	}
	of := func(index, parts int64, blocks ...int64) checkpoint.Part {
		p := whole
		p.Index, p.Of, p.Blocks = index, parts, blocks
		return p
	}
	mine := [][]float32{rows(0, 1, 4, 6, 7), rows(2, 3, 5, 8, 9)}
	require.NoError(t, onRanks(t, ranks, func(ctx context.Context, g *world.Group) error {
		s, err := checkpoint.NewSaver(ctx, g, dir, 1)
		if err != nil {
			return err
		}
		p := of(int64(g.Rank()), ranks, 4, 2, 4)
		err = s.Save(ctx, checkpoint.About{Step: 1}, []checkpoint.Tensor{{Part: p, Values: mine[g.Rank()]}})
		return errors.Join(err, s.Close())
	}))
	set, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Close()) }()
	for _, c := range []struct {
		part checkpoint.Part
		want []float32
	}{
		{whole, values},
		{of(1, 2, 4, 2, 4), mine[1]},
		{of(1, 2), rows(5, 6, 7, 8, 9)},
		{of(0, 2, 2, 8), rows(0, 2, 3, 4, 5)},
	} {
		got, err := set.Read(c.part)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, p := range []checkpoint.Part{of(0, 2, 5, 5), of(0, 2, 4, 4), of(0, 2, 4, 8), of(0, 2, -2, 12)} {
		_, err := set.Read(p)
		require.ErrorContains(t, err, "blocks")
	}
}

// TestTwoCuts: a weight of which ranks divide two axes is read whole, and divided otherwise, also from parts that are divided once.
func TestTwoCuts(t *testing.T) {
	const ranks = 4
	shape := []int64{4, 6, 2}
	whole := value(1, "w", shape)
	// of picks the elements by their definition: experts by halves, and of each the half of the first four rows, and of the last two.
	of := func(first, second int64) (p checkpoint.Part, values []float32) {
		p = checkpoint.Part{Name: "w", Shape: shape, Cut: checkpoint.Cut{Index: first, Of: 2}, Inner: checkpoint.Cut{Axis: 1, Index: second, Of: 2, Blocks: []int64{4, 2}}}
		for i, v := range whole {
			row := int64(i) / 2 % 6
			if int64(i)/12/2 == first && (row < 4 && row/2 == second || row >= 4 && row-4 == second) {
				values = append(values, v)
			}
		}
		return p, values
	}
	save := func(dir string, part func(rank int64) (checkpoint.Part, []float32)) {
		require.NoError(t, onRanks(t, ranks, func(ctx context.Context, g *world.Group) error {
			s, err := checkpoint.NewSaver(ctx, g, dir, 1)
			if err != nil {
				return err
			}
			p, values := part(int64(g.Rank()))
			err = s.Save(ctx, checkpoint.About{Step: 1}, []checkpoint.Tensor{{Part: p, Values: values}})
			return errors.Join(err, s.Close())
		}))
	}
	twice, once := t.TempDir(), t.TempDir()
	save(twice, func(rank int64) (checkpoint.Part, []float32) { return of(rank/2, rank%2) })
	save(once, func(rank int64) (checkpoint.Part, []float32) {
		p := checkpoint.Part{Name: "w", Shape: shape, Cut: checkpoint.Cut{Index: rank, Of: ranks}}
		return p, cut(p, whole)
	})
	for _, dir := range []string{twice, once} {
		set, err := checkpoint.Open(dir)
		require.NoError(t, err)
		for rank := range int64(ranks) {
			p, want := of(rank/2, rank%2)
			got, err := set.Read(p)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, want, p.Select(whole))
			at := -1
			require.Equal(t, want, p.Draw(func() float32 { at++; return whole[at] }))
			require.Equal(t, []int64{2, 3, 2}, p.Local())
			p.Inner.Index = 2
			_, err = set.Read(p)
			require.ErrorContains(t, err, "impossible part")
			p.Inner = checkpoint.Cut{Of: 2}
			_, err = set.Read(p)
			require.ErrorContains(t, err, "a later axis")
			p = checkpoint.Part{Name: "w", Shape: shape, Cut: checkpoint.Cut{Axis: 1, Index: rank % 3, Of: 3}}
			got, err = set.Read(p)
			require.NoError(t, err)
			require.Equal(t, cut(p, whole), got)
		}
		require.NoError(t, set.Close())
	}
	// Parts with the same first cut and another second one do not make a whole.
	mixed := t.TempDir()
	save(mixed, func(rank int64) (checkpoint.Part, []float32) {
		p, values := of(rank/2, rank%2)
		if rank == 3 {
			p.Inner.Blocks = nil
		}
		return p, values
	})
	set, err := checkpoint.Open(mixed)
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Close()) }()
	_, err = set.Read(checkpoint.Part{Name: "w", Shape: shape})
	require.ErrorIs(t, err, checkpoint.ErrMixed)
}

// TestReadsWhatItNeeds: a part, or a range of one, is read with few bytes beside it, however it was divided
// when it was written.
func TestReadsWhatItNeeds(t *testing.T) {
	for _, shape := range [][]int64{{256, 320}, {6, 32, 96}, {480, 1, 4}, {4096}} {
		for axis := range min(len(shape), 2) {
			const ranks = 2
			if shape[axis]%ranks != 0 {
				continue
			}
			dir := t.TempDir()
			whole := value(1, "w", shape)
			require.NoError(t, onRanks(t, ranks, func(ctx context.Context, g *world.Group) error {
				s, err := checkpoint.NewSaver(ctx, g, dir, 1)
				if err != nil {
					return err
				}
				p := checkpoint.Part{Name: "w", Shape: shape, Cut: checkpoint.Cut{Axis: axis, Index: int64(g.Rank()), Of: ranks}}
				err = s.Save(ctx, checkpoint.About{Step: 1}, []checkpoint.Tensor{{Part: p, Values: cut(p, whole)}})
				return errors.Join(err, s.Close())
			}))
			for other, size := range shape {
				for _, of := range []int64{1, 2, 4} {
					p := checkpoint.Part{Name: "w", Shape: shape, Cut: checkpoint.Cut{Axis: other, Index: of - 1, Of: of}}
					if size%of != 0 || size < 32 && other > 0 { // nothing divides short rows
						continue
					}
					want := cut(p, whole)
					n := int64(len(want))
					for _, r := range [][2]int64{{0, n}, {n / 2, n}, {n / 4, n / 4 * 3}, {n / 2, n / 2}} {
						set, err := checkpoint.Open(dir)
						require.NoError(t, err)
						got, err := set.Range(p, r[0], r[1])
						require.NoError(t, err)
						require.Equal(t, want[r[0]:r[1]], got, "%v, elements %v", p, r)
						require.LessOrEqual(t, float64(set.BytesRead()), 1.1*4*float64(r[1]-r[0]), "%v of parts along axis %d, elements %v", p, axis, r)
						_, err = set.Range(p, r[0], n+1)
						require.ErrorContains(t, err, "has no elements")
						require.NoError(t, set.Close())
					}
				}
			}
		}
	}
}
