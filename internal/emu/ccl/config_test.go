package ccl_test

import (
	"encoding/binary"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
)

// commConfig is C's HcclCommConfig of the newest sources.
type commConfig struct {
	size                              uint64
	magic, version                    uint32
	_                                 uint64
	buffer, deterministic             uint32
	_, _                              [128]byte // names
	_, trafficClass, level, worldRank uint32    // the first is the expansion mode
	job                               uint64
	zeroCopy                          uint8
	timeout                           int32
	algorithm                         [1600]byte
	retry                             [50]byte
	retryHow                          [128]byte
	_                                 [128]byte // the buffer's name
	qos                               uint32
	windows                           uint64
	depth                             uint32
}

// newConfig returns a configuration as HcclCommConfigInit of CANN's header fills it.
func newConfig() commConfig {
	const unset = 1<<32 - 1
	return commConfig{
		size: 2248, magic: abi.HCCL_COMM_CONFIG_MAGIC_WORD, version: 11, buffer: unset, deterministic: unset,
		trafficClass: unset, level: unset, timeout: -1, qos: unset, windows: 16, depth: unset,
	}
}

// machineOf makes a node of a chip with the interface of a release.
func machineOf(tb testing.TB, soc, release string) *node { return limited(tb, soc, release, patient) }

// limited is machineOf with limits to the time that ranks wait for each other.
func limited(tb testing.TB, soc, release string, limits ccl.Timeouts) *node {
	r := rt.NewMachine(rt.Config{Devices: 2, Memory: 256 << 20, SoC: soc, API: release})
	n := &node{l: ccl.NewWithTimeouts(r, limits), f: r.Functions()}
	maps.Copy(n.f, n.l.Functions())
	tb.Cleanup(func() { require.Zero(tb, n.f["aclFinalize"](new(rt.Thread), nil)) })
	return n
}

// alone makes a communicator of one rank with a configuration.
func (r *rank) alone(config commConfig) int32 {
	info, comm := [4108]byte{}, new(uint64)
	r.must("HcclGetRootInfo", address(&info))
	code := r.call("HcclCommInitRootInfoConfig", 1, address(&info), 0, address(&config), address(comm))
	if code == 0 {
		r.comm = *comm
	}
	return code
}

// TestConfigByRelease: an HCCL reads the fields that its release has, up to the version and size that the program
// gives, and refuses values that CANN's sources refuse. What it does not know it ignores.
func TestConfigByRelease(t *testing.T) {
	require.EqualValues(t, 2248, binary.Size(struct{ _ [2248]byte }{}))
	capability := map[string]uint64{abi.V81RC1: 5, abi.V850: 11, abi.V900: 12, abi.V910: 12, abi.V920Beta1: 12, "": 12}
	set := func(b []byte, s string) { copy(b, s) }
	fields := []struct {
		name   string
		from   uint32 // version
		change func(c *commConfig)
		code   int32 // of an HCCL that reads it
	}{
		{"as initialised", 0, func(*commConfig) {}, 0},
		{"no magic word", 0, func(c *commConfig) { c.magic = 1 }, 1},
		{"no buffer", 0, func(c *commConfig) { c.buffer = 0 }, 1},
		{"job", 6, func(c *commConfig) { c.job, c.worldRank = 7, 3 }, 0},
		{"zero copy", 7, func(c *commConfig) { c.zeroCopy = 2 }, 1},
		{"timeout", 8, func(c *commConfig) { c.timeout = 5 }, 0},
		{"negative timeout", 8, func(c *commConfig) { c.timeout = -2 }, 1},
		{"algorithm", 8, func(c *commConfig) { set(c.algorithm[:], "level0:NA; level1:ring") }, 0},
		{"algorithms", 8, func(c *commConfig) {
			set(c.algorithm[:], "allreduce=level0:NA;level1:NHR/others=level0:NA;level1:H-D_R")
		}, 0},
		{"level", 8, func(c *commConfig) { set(c.algorithm[:], "level4:ring") }, 1},
		{"level twice", 8, func(c *commConfig) { set(c.algorithm[:], "level1:ring;level1:NHR") }, 1},
		{"both forms", 8, func(c *commConfig) { set(c.algorithm[:], "level1:ring/allreduce=level1:NHR") }, 1},
		{"call", 8, func(c *commConfig) { set(c.algorithm[:], "barrier=level1:ring") }, 1},
		{"retry", 8, func(c *commConfig) {
			set(c.retry[:], "L1:1, L2:0")
			set(c.retryHow[:], "MaxCnt:10, HoldTime:0, IntervalTime:60000")
		}, 0},
		{"retry where", 8, func(c *commConfig) { set(c.retry[:], "L3:1") }, 1},
		{"retry whether", 8, func(c *commConfig) { set(c.retry[:], "L1:yes") }, 1},
		{"retry how often", 8, func(c *commConfig) { set(c.retryHow[:], "MaxCnt:11, HoldTime:0, IntervalTime:0") }, 1},
		{"retry when", 8, func(c *commConfig) { set(c.retryHow[:], "MaxCnt:1, HoldTime:60001, IntervalTime:0") }, 1},
		{"retry order", 8, func(c *commConfig) { set(c.retryHow[:], "HoldTime:1, MaxCnt:1, IntervalTime:1") }, 1},
		{"class of service", 10, func(c *commConfig) { c.qos = 7 }, 0},
		{"no class of service", 10, func(c *commConfig) { c.qos = 8 }, 1},
		{"no windows", 10, func(c *commConfig) { c.windows = 0 }, 1},
	}
	for release, want := range capability {
		n := machineOf(t, "Ascend910B1", release)
		r := newRank(t, n, 0)
		require.EqualValues(t, want, r.call("HcclGetCommConfigCapability"), release)
		reads := map[uint64]uint32{5: 5, 11: 8, 12: 10}[want]
		for _, f := range fields {
			for version, size := range map[uint32]uint64{5: 300, 8: 2104, 10: 2240, 11: 2248} {
				config := newConfig()
				config.version, config.size = version, size
				f.change(&config)
				code := int32(0)
				if f.from <= min(version, reads) {
					code = f.code
				}
				assert.Equal(t, code, r.alone(config), "%s, version %d with CANN %q", f.name, version, release)
				r.close()
			}
		}
	}
	strict := newConfig()
	strict.deterministic = 2
	for soc, code := range map[string]int32{"Ascend910B1": 0, "Ascend910_9391": 1} {
		r := newRank(t, machineOf(t, soc, ""), 0)
		assert.Equal(t, code, r.alone(strict), soc)
		r.close()
	}
}

// TestConfiguredTimeout: the time of the communicator counts, and not that of the environment, except on the 950.
func TestConfiguredTimeout(t *testing.T) {
	const short = 200 * time.Millisecond
	for name, x := range map[string]struct {
		soc     string
		execute time.Duration // of the environment
		timeout int32         // of the configuration
		want    time.Duration // 0 for no limit
	}{
		"a second":       {"Ascend910B1", patient.Execute, 1, time.Second},
		"without limit":  {"Ascend910B1", short, 0, 0},
		"not configured": {"Ascend910B1", short, -1, short},
		"the 950":        {"Ascend950", short, 100, short},
	} {
		t.Run(name, func(t *testing.T) {
			n := limited(t, x.soc, "", ccl.Timeouts{Connect: patient.Connect, Execute: x.execute})
			all := []*rank{newRank(t, n, 0), newRank(t, n, 1)}
			config, info := newConfig(), [4108]byte{}
			config.timeout = x.timeout
			all[0].must("HcclGetRootInfo", address(&info))
			each(all, func(r *rank) {
				own, comm := config, new(uint64)
				r.must("HcclCommInitRootInfoConfig", 2, address(&info), uint64(r.id), address(&own), address(comm))
				r.comm = *comm
			})
			reduce := func(r *rank) (free func()) {
				p := r.upload(ones(8))
				r.must("HcclAllReduce", p, p, 8, int32Type, sum, r.comm, r.stream)
				return func() { r.free(p) }
			}
			began, free := time.Now(), reduce(all[0])
			if x.want == 0 {
				time.Sleep(2 * short)
				defer reduce(all[1])()
				require.Zero(t, all[0].sync(), all[0].text())
				require.Zero(t, all[1].sync(), all[1].text())
			} else {
				require.Equal(t, abi.ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, int(all[0].sync()))
				require.GreaterOrEqual(t, time.Since(began), x.want)
				text := all[0].text()
				require.Contains(t, text, "EI0002")
				require.Contains(t, text, x.want.String())
			}
			free()
			each(all, (*rank).close)
		})
	}
}

// TestNewCodes: results and element types that came after CANN 8.1 have names and sizes from their release on.
func TestNewCodes(t *testing.T) {
	texts := map[string][]string{abi.V81RC1: {"unknown error", "unknown error"}, abi.V850: {"retry constraint", "out of memory"}, "": {"retry constraint", "out of memory"}}
	for release, want := range texts {
		n := machineOf(t, "Ascend910B1", release)
		r := newRank(t, n, 0)
		for i, code := range []uint64{abi.HCCL_E_OPRETRY_FAIL, abi.HCCL_E_OOM} {
			require.Equal(t, want[i], rt.CString(n.f["HcclGetErrorString"](r.t, []uint64{code})), "%d of CANN %q", code, release)
		}
		require.Equal(t, "unknown error", rt.CString(n.f["HcclGetErrorString"](r.t, []uint64{abi.HCCL_E_IN_STATUS})))
		require.Zero(t, r.alone(newConfig()))
		p, q := r.upload(make([]byte, 8)), r.upload([]byte("12345678"))
		for kind := uint64(abi.HCCL_DATA_TYPE_HIF8); kind <= abi.HCCL_DATA_TYPE_FP8E8M0; kind++ {
			code := int32(0)
			if release != "" {
				code = abi.HCCL_E_NOT_SUPPORT
			}
			require.Equal(t, code, r.call("HcclAllGather", q, p, 8, kind, r.comm, r.stream), "%d of CANN %q", kind, release)
			require.EqualValues(t, abi.HCCL_E_NOT_SUPPORT, r.call("HcclAllReduce", q, p, 8, kind, sum, r.comm, r.stream), "nothing is reduced")
		}
		require.Zero(t, r.sync())
		if release == "" {
			require.Equal(t, "12345678", string(r.download(p, 8)))
		}
		r.free(p)
		r.free(q)
		r.close()
	}
}
