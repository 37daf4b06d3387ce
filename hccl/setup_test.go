package hccl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/hccl"
)

// TestConfigOfReleases runs in a process for each release: a setting that its HCCL does not read is refused by name,
// and the others are taken.
func TestConfigOfReleases(t *testing.T) {
	acltest.Need(t)
	seven := 7
	settings := []struct {
		name   string
		since  int // place in acl.KnownVersions
		config hccl.Config
	}{
		{"Expansion", 0, hccl.Config{Expansion: hccl.ExpandOnAICPU}},
		{"Timeout", 1, hccl.Config{Timeout: 5 * time.Second}},
		{"Timeout", 1, hccl.Config{Timeout: hccl.NoTimeout}},
		{"Algorithm", 1, hccl.Config{Algorithm: "level0:NA;level1:ring"}},
		{"Retry", 1, hccl.Config{Retry: &hccl.Retry{}}},
		{"Retry", 1, hccl.Config{Retry: &hccl.Retry{Servers: true, SuperPods: true, Count: 10, Hold: time.Minute, Interval: time.Millisecond}}},
		{"JobID", 1, hccl.Config{JobID: 7}},
		{"WorldRank", 1, hccl.Config{WorldRank: 1}},
		{"QoS", 2, hccl.Config{QoS: &seven}},
		{"WindowGiB", 2, hccl.Config{WindowGiB: 1}},
	}
	for at, release := range acl.KnownVersions() {
		t.Run(release, func(t *testing.T) {
			acltest.Rerun(t, func(t *testing.T) {
				st := devices(t, 1)[0]
				for _, s := range settings {
					info, err := hccl.NewRootInfo(st)
					require.NoError(t, err)
					c, err := hccl.Join(t.Context(), st, hccl.RootInfo{ID: info.ID, Size: 1}, s.config)
					if at < s.since {
						require.ErrorIs(t, err, acl.ErrNotSupported, s.name)
						require.ErrorContains(t, err, "Config."+s.name)
						s.config = hccl.Config{} // the root still waits for its rank
						c, err = hccl.Join(t.Context(), st, hccl.RootInfo{ID: info.ID, Size: 1}, s.config)
					}
					require.NoError(t, err, s.name)
					require.NoError(t, c.Barrier(st))
					require.NoError(t, st.Synchronize(t.Context()))
					require.NoError(t, c.Close())
				}
			}, "CANN_EMU_API="+release, "CANN_EMU_SOC=Ascend910_9391")
		})
	}
}

// TestConfigOfChips: a setting that HCCL takes and does not follow on a chip is refused by name.
func TestConfigOfChips(t *testing.T) {
	acltest.Need(t)
	if !cshim.Emulated {
		t.Skip("the emulator alone is any chip")
	}
	for chip, settings := range map[string]map[string]hccl.Config{
		"Ascend910B1": {"Retry": {Retry: &hccl.Retry{Servers: true}}, "WindowGiB": {WindowGiB: 1}},
		"Ascend950": {
			"Retry": {Retry: &hccl.Retry{SuperPods: true}}, "WindowGiB": {WindowGiB: 1},
			"Timeout": {Timeout: hccl.NoTimeout}, "JobID": {JobID: 1}, "WorldRank": {WorldRank: 1},
		},
	} {
		t.Run(chip, func(t *testing.T) {
			acltest.Rerun(t, func(t *testing.T) {
				st := devices(t, 1)[0]
				info, err := hccl.NewRootInfo(st)
				require.NoError(t, err)
				info.Size = 1
				c, err := hccl.Join(t.Context(), st, info, hccl.Config{Retry: &hccl.Retry{}})
				require.NoError(t, err, "what is off asks for nothing")
				for name, config := range settings {
					_, err := hccl.Join(t.Context(), st, info, config)
					require.ErrorIs(t, err, acl.ErrNotSupported, name)
					require.ErrorContains(t, err, "Config."+name)
					_, err = c.Sub([]int{0}, config)
					require.ErrorIs(t, err, acl.ErrNotSupported, name)
				}
				require.NoError(t, c.Close())
			}, "CANN_EMU_SOC="+chip)
		})
	}
}

// has returns whether the CANN that is there is of a release, or newer.
func has(t *testing.T, release string) bool {
	acltest.Need(t)
	installed, err := acl.InstalledRelease()
	require.NoError(t, err)
	return slices.Index(acl.KnownVersions(), installed) >= slices.Index(acl.KnownVersions(), release)
}

// since skips a test that needs a newer release than the one that is there.
func since(t *testing.T, release string) {
	if !has(t, release) {
		t.Skipf("CANN %s is needed", release)
	}
}

// TestResults: codes that came with CANN 8.5.0 have the classes of their causes.
func TestResults(t *testing.T) {
	since(t, "8.5.0")
	results := []struct {
		code    int32
		classes []error
	}{
		{23, []error{hccl.ErrRetried, acl.ErrPeerLost}}, {24, []error{acl.ErrOutOfMemory}}, {1041, nil},
	}
	var rules []string
	for i, r := range results {
		rules = append(rules, fmt.Sprintf("HcclBarrier:%d=%d", i+1, r.code))
	}
	acltest.Faults(t, strings.Join(rules, ";"), func(t *testing.T) {
		joined(t, 1, func(st *acl.Stream, c *hccl.Comm) {
			for _, r := range results {
				err := c.Barrier(st)
				var e *hccl.Error
				if assert.ErrorAs(t, err, &e) {
					assert.Equal(t, r.code, e.Code)
				}
				for _, class := range []error{hccl.ErrRetried, acl.ErrPeerLost, acl.ErrOutOfMemory} {
					assert.Equal(t, slices.Contains(r.classes, class), errors.Is(err, class), "%d as %v", r.code, class)
				}
			}
		})
	})
}

// TestElementsOf8Bits: from CANN 9.0.0 on ranks exchange elements of 8 bits byte by byte; HCCL does not add them.
func TestElementsOf8Bits(t *testing.T) {
	acltest.Need(t)
	for at, release := range acl.KnownVersions() {
		t.Run(release, func(t *testing.T) {
			acltest.Rerun(t, func(t *testing.T) {
				joined(t, 2, func(st *acl.Stream, c *hccl.Comm) {
					ctx := context.Background()
					for _, d := range []aclnn.DType{aclnn.HiFloat8, aclnn.Float8E4M3, aclnn.Float8E5M2, aclnn.Float8E8M0} {
						mine, err := aclnn.New(st, d, 3)
						assert.NoError(t, err)
						all, err := aclnn.New(st, d, 6)
						assert.NoError(t, err)
						first := uint8(100 * c.Rank())
						assert.NoError(t, acl.CopyToDevice(ctx, st, mine.Buffer(), []uint8{first, first + 0x7f, first + 0x80}))
						assert.ErrorIs(t, c.AllReduce(st, mine, mine, hccl.Sum), acl.ErrNotSupported, d)
						err = c.AllGather(st, mine, all)
						if at < 2 {
							assert.ErrorIs(t, err, acl.ErrNotSupported, d)
						} else if assert.NoError(t, err, d) {
							got := make([]uint8, 6)
							assert.NoError(t, acl.CopyFromDevice(ctx, st, got, all.Buffer()))
							assert.Equal(t, []uint8{0, 127, 128, 100, 227, 228}, got, d)
						}
						assert.NoError(t, errors.Join(mine.Close(), all.Close()))
					}
				})
			}, "CANN_EMU_API="+release)
		})
	}
}

// Settings that HCCL would take in another way, or only log, are refused before it is called.
func TestConfigRefuses(t *testing.T) {
	since(t, "8.5.0")
	st := devices(t, 1)[0]
	eight := 8
	for field, c := range map[string]hccl.Config{
		"Timeout":        {Timeout: 1500 * time.Millisecond},
		"Timeout ":       {Timeout: -2},
		"Algorithm":      {Algorithm: strings.Repeat("n", 1600)},
		"Algorithm ":     {Algorithm: "a\x00"},
		"QoS":            {QoS: &eight},
		"WindowGiB":      {WindowGiB: -1},
		"Retry.Count":    {Retry: &hccl.Retry{Count: 11}},
		"Retry.Hold":     {Retry: &hccl.Retry{Hold: time.Second}},
		"Retry.Interval": {Retry: &hccl.Retry{Count: 1, Interval: time.Minute + time.Millisecond}},
	} {
		_, err := hccl.Join(t.Context(), st, hccl.RootInfo{Size: 1}, c)
		assert.ErrorIs(t, err, acl.ErrInvalidArgument, field)
		assert.ErrorContains(t, err, "Config."+strings.TrimSpace(field))
	}
	info, err := hccl.NewRootInfo(st)
	require.NoError(t, err)
	_, err = hccl.Join(t.Context(), st, hccl.RootInfo{ID: info.ID, Size: 1}, hccl.Config{Algorithm: "level9:ring"})
	var e *hccl.Error
	require.True(t, errors.As(err, &e), "HCCL reads the algorithm itself")
	require.EqualValues(t, 1, e.Code)
	c, err := hccl.Join(t.Context(), st, hccl.RootInfo{ID: info.ID, Size: 1}, hccl.Config{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// TestTimeoutOfCommunicator: a collective waits for a peer as long as the communicator's configuration says.
func TestTimeoutOfCommunicator(t *testing.T) {
	since(t, "8.5.0")
	streams := devices(t, 2)
	info, err := hccl.NewRootInfo(streams[0])
	require.NoError(t, err)
	comms := make(chan *hccl.Comm, 2)
	for i, st := range streams {
		go func() {
			c, err := hccl.Join(t.Context(), st, hccl.RootInfo{ID: info.ID, Rank: i, Size: 2}, hccl.Config{Timeout: time.Second})
			assert.NoError(t, err)
			comms <- c
		}()
	}
	for range streams {
		c := <-comms
		require.NotNil(t, c)
		if c.Rank() == 0 {
			require.NoError(t, c.Barrier(streams[0]))
			require.ErrorContains(t, streams[0].Synchronize(t.Context()), "in 1s")
		}
		defer func() { assert.NoError(t, c.Close()) }()
	}
}

// TestWindow: physical memory of Atlas A3 can be a window; other chips refuse, and so does CANN before 9.0.0.
func TestWindow(t *testing.T) {
	acltest.Need(t)
	if !cshim.Emulated { // a library of CANN's name has the symbols of all releases, and is one chip
		t.Skip("the emulator alone is any chip of any release")
	}
	const page = 2 << 20
	// joined opens a communicator of two devices, and physical memory that is mapped on the first.
	joined := func(t *testing.T) (*hccl.Comm, *acl.Buffer) {
		streams := devices(t, 2)
		comms, err := hccl.JoinAll(t.Context(), streams...)
		require.NoError(t, err)
		place := streams[0].Device()
		r, err := place.Reserve(page)
		require.NoError(t, err)
		p, err := place.MallocPhysical(page)
		require.NoError(t, err)
		b, err := r.Map(0, p)
		require.NoError(t, err)
		t.Cleanup(func() {
			for _, x := range []interface{ Close() error }{comms[0], comms[1], b, p, r} {
				assert.NoError(t, x.Close())
			}
		})
		return comms[0], b
	}
	t.Run("A3", func(t *testing.T) {
		acltest.Rerun(t, func(t *testing.T) {
			c, b := joined(t)
			address := b.Address()
			_, err := c.Status()
			require.ErrorIs(t, err, acl.ErrNotSupported)
			_, _, err = c.Window(address, 1)
			require.ErrorIs(t, err, hccl.ErrNotFound)
			_, err = c.RegisterWindow(address, 2*page)
			require.ErrorIs(t, err, acl.ErrInvalidArgument)
			_, err = c.RegisterWindow(address, 0)
			require.ErrorIs(t, err, acl.ErrInvalidArgument)
			w, err := c.RegisterWindow(address, page)
			require.NoError(t, err)
			found, offset, err := c.Window(address+64, page-64)
			require.NoError(t, err)
			require.Equal(t, w, found)
			require.EqualValues(t, 64, offset)
			require.NoError(t, w.Close())
			require.ErrorIs(t, w.Close(), acl.ErrInvalidArgument)
		}, "CANN_EMU_SOC=Ascend910_9391", "CANN_EMU_API=9.1.0")
	})
	t.Run("950", func(t *testing.T) {
		acltest.Rerun(t, func(t *testing.T) {
			c, b := joined(t)
			status, err := c.Status()
			require.NoError(t, err)
			require.Equal(t, hccl.Ready, status)
			require.NoError(t, c.Suspend())
			status, err = c.Status()
			require.NoError(t, err)
			require.Equal(t, "suspending", status.String())
			require.NoError(t, c.Resume())
			_, _, err = c.Window(b.Address(), 1)
			require.ErrorIs(t, err, hccl.ErrNotFound)
			w, err := c.RegisterWindow(b.Address(), 64)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		}, "CANN_EMU_SOC=Ascend950", "CANN_EMU_API=9.1.0")
	})
	t.Run("8.5.0", func(t *testing.T) {
		acltest.Rerun(t, func(t *testing.T) {
			c, b := joined(t)
			for _, call := range []func() error{
				func() error { _, err := c.Status(); return err },
				func() error { _, err := c.RegisterWindow(b.Address(), 64); return err },
				func() error { _, _, err := c.Window(b.Address(), 64); return err },
			} {
				require.ErrorIs(t, call(), acl.ErrNotSupported)
			}
		}, "CANN_EMU_API=8.5.0", "CANN_EMU_SOC=Ascend910_9391")
	})
	if os.Getenv("CANN_EMU_SOC") == "" {
		c, b := joined(t)
		_, err := c.RegisterWindow(b.Address(), page)
		require.ErrorIs(t, err, acl.ErrNotSupported)
		require.ErrorContains(t, err, "HcclCommSymWinRegister")
	}
}
