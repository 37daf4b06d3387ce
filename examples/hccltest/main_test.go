package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/freeport"
)

// envArguments makes the test binary run as hccltest.
const envArguments = "HCCLTEST_ARGUMENTS"

func TestMain(m *testing.M) {
	if args := os.Getenv(envArguments); args != "" {
		o, err := parseFlags(strings.Fields(args), os.Stderr)
		if err == nil {
			err = run(context.Background(), o, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func needEmulator(t *testing.T) {
	rt, err := acl.Open(acl.Config{})
	if errors.Is(err, acl.ErrNotInstalled) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NoError(t, rt.Close())
}

func table(t *testing.T, arguments string) []string {
	o, err := parseFlags(strings.Fields(arguments), io.Discard)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), o, &out))
	require.Empty(t, acl.Live())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[2:]
}

// lacking is the operation that CANN 8.1 does not have.
const lacking = "alltoallvc"

// succeeded reports whether a row shows right results, or a collective that this CANN does not
// have.
func succeeded(row string) bool {
	if os.Getenv("CANN_EMU_API") != "" && strings.HasPrefix(row, lacking) {
		return strings.HasSuffix(row, "unsupported")
	}
	return strings.HasSuffix(row, "success")
}

// Every collective gives the right results for every dtype and for sizes that do not divide evenly.
func TestAllCollectives(t *testing.T) {
	needEmulator(t)
	for _, ranks := range []string{"1", "3"} {
		rows := table(t, "-op all -d all -b 1 -e 5K -f 70 -w 1 -n 1 -r 0 -p "+ranks)
		require.Len(t, rows, len(operations)*len(dtypes)*3)
		for _, row := range rows {
			require.True(t, succeeded(row), row)
		}
	}
	for _, reduce := range []string{"prod", "max", "min"} {
		for _, row := range table(t, "-op all_reduce,reduce,reduce_scatter,reduce_scatterv -b 100 -w 0 -n 1 -p 4 -r 3 -o "+reduce) {
			require.True(t, succeeded(row), row)
		}
	}
	rows := table(t, "-d bfloat16 -o prod -b 64 -w 0 -n 1 -p 2")
	require.Contains(t, rows[0], "unsupported")
	rows = table(t, "-c=false -b 64 -w 0 -n 1 -p 2")
	require.True(t, strings.HasSuffix(rows[0], "off"), rows[0])
}

// As processes, with the variables that launchers set.
func TestProcesses(t *testing.T) {
	needEmulator(t)
	number := freeport.Number(t, freeport.Free(t))
	var ranks []*exec.Cmd
	out, errs := make([]bytes.Buffer, 2), make([]bytes.Buffer, 2)
	for i := range 2 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), envArguments+"=-op all -b 4K -w 1 -n 2", fmt.Sprintf("RANK=%d", i), fmt.Sprintf("LOCAL_RANK=%d", i),
			"WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+number, world.EnvSecret+"=test")
		c.Stdout, c.Stderr = &out[i], &errs[i]
		require.NoError(t, c.Start())
		ranks = append(ranks, c)
	}
	for i, c := range ranks {
		assert.NoError(t, c.Wait(), errs[i].String())
	}
	rows := strings.Split(strings.TrimSpace(out[0].String()), "\n")
	require.Len(t, rows, 2+len(operations), out[0].String())
	for _, row := range rows[2:] {
		assert.True(t, succeeded(row), row)
	}
	assert.Empty(t, out[1].String())
}

// A wrong element is found and named.
func TestVerifyFindsErrors(t *testing.T) {
	needEmulator(t)
	ctx := context.Background()
	rt, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	dev, err := rt.Device(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	st, err := dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	comms, err := hccl.JoinAll(t.Context(), st)
	require.NoError(t, err)
	defer func() { require.NoError(t, comms[0].Close()) }()
	c := &call{Comm: comms[0], st: st, reduce: hccl.Sum, part: 10}
	p := operations[0]
	c.recv, err = c.upload(ctx, aclnn.Int8, 10, func(i int64) float32 { return c.want(p, i) + float32(i/9) })
	require.NoError(t, err)
	defer func() { require.NoError(t, c.recv.Close()) }()
	wrong, err := c.verify(ctx, p)
	require.NoError(t, err)
	require.Equal(t, "rank 0: element 9 is 3, not 2", wrong)
}

func TestFlags(t *testing.T) {
	o, err := parseFlags(strings.Fields("-op all_reduce,sendrecv -b 1K -e 5K -i 2K -d int8 -o max"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, []int64{1 << 10, 3 << 10, 5 << 10}, o.sizes())
	require.Equal(t, "sendrecv", o.operations[1].name)
	require.Equal(t, hccl.Max, o.reduce)
	for arguments, text := range map[string]string{
		"-op nothing": "all_reduce", "-d float31": "float32", "-o avg": "prod", "-b x": "not a size", "-b 2K -e 1K": "sizes from",
		"-b 9223372036854775807G": "not a size", "-f 1": "factor", "-n 0": "-n is", "extra": "unknown argument", "-b -1": "not a size", "-b K": "not a size",
	} {
		_, err := parseFlags(strings.Fields(arguments), io.Discard)
		require.ErrorContains(t, err, text, arguments)
	}
	o, err = parseFlags(strings.Fields("-p 2 -r 2 -b 4"), io.Discard)
	require.NoError(t, err)
	needEmulator(t)
	require.ErrorContains(t, run(context.Background(), o, io.Discard), "the ranks are 0 to 1")
	o.ranks = 1000
	require.ErrorContains(t, run(context.Background(), o, io.Discard), "devices")
}

// TestSamples checks the commands in the help text.
func TestSamples(t *testing.T) {
	for _, s := range samples {
		_, flags, _ := strings.Cut(s, "/hccltest")
		_, err := parseFlags(strings.Fields(flags), t.Output())
		require.NoError(t, err, s)
	}
}
