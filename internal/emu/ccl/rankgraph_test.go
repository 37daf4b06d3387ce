package ccl_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
)

// cluster returns a rank table of servers with devices each, whose addresses are 10.server.device.1 and, for every second device, a second
// one. With pods it is of version 1.2, and the servers are in super pods of as many servers, the last one in one of its own.
func cluster(servers, devices, pods int) string {
	var all, members []string
	rank := 0
	for s := range servers {
		var of []string
		for d := range devices {
			ips := fmt.Sprintf("10.%d.%d.1", s, d)
			if d%2 == 1 {
				ips += fmt.Sprintf(",10.%d.%d.2", s, d)
			}
			of = append(of, fmt.Sprintf(`{"device_id":"%d","rank_id":"%d","device_ip":"%s","super_device_id":"%d"}`, d, rank, ips, 1000+rank))
			rank++
		}
		all = append(all, fmt.Sprintf(`{"server_id":"s%d","device":[%s]}`, s, strings.Join(of, ",")))
	}
	if pods == 0 {
		return fmt.Sprintf(`{"version":"1.0","status":"completed","server_list":[%s]}`, strings.Join(all, ","))
	}
	for first := 0; first < servers; first += pods {
		var in []string
		for s := first; s < min(first+pods, servers); s++ {
			in = append(in, fmt.Sprintf(`{"server_id":"s%d"}`, s))
		}
		members = append(members, fmt.Sprintf(`{"super_pod_id":"p%d","server_list":[%s]}`, first, strings.Join(in, ",")))
	}
	return fmt.Sprintf(`{"version":"1.2","status":"completed","server_list":[%s],"super_pod_list":[%s]}`, strings.Join(all, ","), strings.Join(members, ","))
}

// member returns a rank of a table, which has a device of the machine. Its peers do not exist.
func member(t *testing.T, soc, table string, id, device int) *rank {
	r, comm := newRank(t, machineOf(t, soc, ""), device), new(uint64)
	r.must("HcclCommInitClusterInfo", save(t, table), uint64(id), address(comm))
	r.comm = *comm
	t.Cleanup(r.close)
	return r
}

// list returns the numbers that a function of the graph lists.
func (r *rank) list(name string, args ...uint64) []uint32 {
	r.tb.Helper()
	at, n := new(uint64), new(uint32)
	r.must(name, append(append([]uint64{r.comm}, args...), address(at), address(n))...)
	return rt.Read[uint32](*at, uint64(*n))
}

func (r *rank) topology(layer uint64) int32 {
	kind := new(int32)
	r.must("HcclRankGraphGetTopoTypeByLayer", r.comm, layer, address(kind))
	return *kind
}

// bond holds the fields of a CommLink that the tests compare: the protocol, and for each end the kind of its address, the first bytes of
// the address, and the place of the device.
type bond struct {
	protocol int32
	ends     [2]bondEnd
}

type bondEnd struct {
	kind                       int32
	ip                         string
	device, super, server, pod uint32
}

// bonds reads links by the places of their fields in C.
func (r *rank) bonds(layer, from, to uint64) (all []bond) {
	r.tb.Helper()
	at, n := new(uint64), new(uint32)
	r.must("HcclRankGraphGetLinks", r.comm, layer, from, to, address(at), address(n))
	for i := range *n {
		b := unsafe.Slice((*byte)(rt.Pointer(*at+uint64(i)*464)), 464)
		u := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
		require.Equal(r.tb, []uint32{1, 0x0f0e0f0f, 464, 0}, []uint32{u(0), u(4), u(8), u(12)})
		require.Equal(r.tb, []byte{1, 0xFF, 0xFF}, b[340:343])
		x := bond{protocol: int32(u(336))}
		for e := range 2 {
			base := 16 + 160*e
			require.Equal(r.tb, u(336), u(base))
			require.Zero(r.tb, u(base+44), "on a device")
			x.ends[e] = bondEnd{int32(u(base + 4)), fmt.Sprint(b[base+8], ".", b[base+9], ".", b[base+10], ".", b[base+11]), u(base + 48), u(base + 52), u(base + 56), u(base + 60)}
		}
		all = append(all, x)
	}
	return all
}

func upTo(first, end uint32) (all []uint32) {
	for r := first; r < end; r++ {
		all = append(all, r)
	}
	return all
}

// TestRankGraphOfServers: the example of HCCL's header, four servers of eight devices, as rank 9 sees it.
func TestRankGraphOfServers(t *testing.T) {
	r := member(t, "Ascend910B1", cluster(4, 8, 0), 9, 1)
	require.Equal(t, []uint32{0, 1}, r.list("HcclRankGraphGetLayers"))
	require.Equal(t, upTo(8, 16), r.list("HcclRankGraphGetRanksByLayer", 0))
	require.Equal(t, upTo(0, 32), r.list("HcclRankGraphGetRanksByLayer", 1))
	require.Equal(t, []uint32{8, 8, 8, 8}, r.list("HcclRankGraphGetInstSizeListByLayer", 0))
	require.Equal(t, []uint32{32}, r.list("HcclRankGraphGetInstSizeListByLayer", 1))
	n := new(uint32)
	for layer, want := range []uint32{8, 32} {
		r.must("HcclRankGraphGetRankSizeByLayer", r.comm, uint64(layer), address(n))
		require.Equal(t, want, *n)
	}
	require.EqualValues(t, 1, r.topology(0), "a mesh")
	require.EqualValues(t, 0, r.topology(1), "a Clos network")
	mode := new(int32)
	r.must("HcclGetHeterogMode", r.comm, address(mode))
	require.Zero(t, *mode)

	end := func(kind int32, ip string, server, device uint32) bondEnd {
		return bondEnd{kind, ip, device, 1000 + 8*server + device, server, 0}
	}
	require.Equal(t, []bond{{0, [2]bondEnd{end(2, "10.1.0.1", 1, 0), end(2, "10.1.2.1", 1, 2)}}}, r.bonds(0, 8, 10))
	require.Equal(t, []bond{
		{1, [2]bondEnd{end(0, "10.0.1.1", 0, 1), end(0, "10.3.0.1", 3, 0)}}, {1, [2]bondEnd{end(0, "10.0.1.2", 0, 1), end(0, "10.3.0.1", 3, 0)}},
	}, r.bonds(1, 1, 24), "a link for each pair of addresses")
	for _, none := range [][3]uint64{{0, 0, 8}, {1, 8, 9}, {2, 8, 9}, {2, 0, 8}} {
		require.Empty(t, r.bonds(none[0], none[1], none[2]), none)
	}
	first, again := new(uint64), new(uint64)
	r.must("HcclRankGraphGetRanksByLayer", r.comm, 1, address(first), address(n))
	r.must("HcclRankGraphGetRanksByLayer", r.comm, 1, address(again), address(n))
	require.Equal(t, *first, *again, "repeated calls need no more memory")

	at := new(uint64)
	for _, x := range []struct {
		code int32
		name string
		args []uint64
		text string
	}{
		{abi.HCCL_E_PARA, "HcclRankGraphGetRanksByLayer", []uint64{2, address(at), address(n)}, "netLayer is 2"},
		{abi.HCCL_E_PARA, "HcclRankGraphGetRankSizeByLayer", []uint64{7, address(n)}, "the layers 0 to 1"},
		{abi.HCCL_E_PARA, "HcclRankGraphGetTopoTypeByLayer", []uint64{2, address(n)}, "netLayer is 2"},
		{abi.HCCL_E_PARA, "HcclRankGraphGetInstSizeListByLayer", []uint64{2, address(at), address(n)}, "netLayer is 2"},
		{abi.HCCL_E_PARA, "HcclRankGraphGetLinks", []uint64{0, 32, 0, address(at), address(n)}, "32"},
		{abi.HCCL_E_PARA, "HcclRankGraphGetLinks", []uint64{0, 1, 1, address(at), address(n)}, "are both 1"},
		{abi.HCCL_E_PARA, "HcclRankGraphGetLinks", []uint64{3, 1, 2, address(at), address(n)}, "netLayer is 3"},
		{abi.HCCL_E_PTR, "HcclRankGraphGetLayers", []uint64{0, address(n)}, "netLayers is null"},
		{abi.HCCL_E_PTR, "HcclRankGraphGetLinks", []uint64{0, 1, 2, address(at), 0}, "linkNum is null"},
		{abi.HCCL_E_PTR, "HcclGetHeterogMode", []uint64{0}, "mode is null"},
	} {
		require.EqualValues(t, x.code, r.call(x.name, append([]uint64{r.comm}, x.args...)...), x.name)
		require.Contains(t, r.text(), x.text)
	}
}

// TestRankGraphOfSuperPods: five servers of two devices in super pods of two, as rank 5 sees them.
func TestRankGraphOfSuperPods(t *testing.T) {
	r := member(t, "Ascend910_9391", cluster(5, 2, 2), 5, 1)
	require.Equal(t, []uint32{0, 1, 2}, r.list("HcclRankGraphGetLayers"))
	for layer, want := range [][]uint32{{4, 5}, {4, 5, 6, 7}, upTo(0, 10)} {
		require.Equal(t, want, r.list("HcclRankGraphGetRanksByLayer", uint64(layer)))
	}
	for layer, want := range [][]uint32{{2, 2, 2, 2, 2}, {4, 4, 2}, {10}} {
		require.Equal(t, want, r.list("HcclRankGraphGetInstSizeListByLayer", uint64(layer)))
	}
	for layer, want := range []int32{2, 0, 0} {
		require.Equal(t, want, r.topology(uint64(layer)))
	}
	for _, x := range []struct {
		from, to uint64
		want     [3]int32 // protocols by layer
	}{{0, 1, [3]int32{0, 0, -1}}, {0, 3, [3]int32{-1, 0, -1}}, {3, 4, [3]int32{-1, -1, 1}}, {8, 2, [3]int32{-1, -1, 1}}} {
		for layer, want := range x.want {
			links := r.bonds(uint64(layer), x.from, x.to)
			if want < 0 {
				require.Empty(t, links)
				continue
			}
			require.NotEmpty(t, links)
			require.Equal(t, want, links[0].protocol, "%v %d", x, layer)
			for i, rank := range []uint32{uint32(x.from), uint32(x.to)} {
				require.Equal(t, []uint32{rank % 2, 1000 + rank, rank / 2, rank / 4}, []uint32{links[0].ends[i].device, links[0].ends[i].super, links[0].ends[i].server, links[0].ends[i].pod})
			}
		}
	}
}

// TestRankGraphOfOneServer: devices of a process, and what the emulator does not know of others.
func TestRankGraphOfOneServer(t *testing.T) {
	r := pair(t, "Ascend910B1")[1]
	require.Equal(t, []uint32{0}, r.list("HcclRankGraphGetLayers"))
	require.Equal(t, []uint32{0, 1}, r.list("HcclRankGraphGetRanksByLayer", 0))
	require.Equal(t, []bond{{0, [2]bondEnd{{2, "0.0.0.0", 1, 0xFFFFFFFF, 0, 0}, {2, "0.0.0.0", 0, 0xFFFFFFFF, 0, 0}}}}, r.bonds(0, 1, 0))
	at, n := new(uint64), new(uint32)

	sub, config := new(uint64), newConfig()
	members := []uint32{1}
	r.must("HcclCreateSubCommConfig", address(&r.comm), 1, address(&members[0]), 7, 0, address(&config), address(sub))
	require.Zero(t, r.call("HcclRankGraphGetRanksByLayer", *sub, 0, address(at), address(n)), r.text())
	require.Equal(t, []uint32{0}, rt.Read[uint32](*at, uint64(*n)), "ranks are those of the communicator")
	r.must("HcclCommDestroy", *sub)

	each(ranks(t, 3, patient), func(r *rank) { // that have met at a root
		require.Equal(t, []uint32{0, 1, 2}, r.list("HcclRankGraphGetRanksByLayer", 0))
	})
	require.Equal(t, []int{0, 1, 0, 2}, ccl.ServersOf("b", "a", "b", "c"), "of hosts")

	refused := func(r *rank, name, text string, args ...uint64) {
		t.Helper()
		require.EqualValues(t, abi.HCCL_E_NOT_SUPPORT, r.call(name, append(append([]uint64{r.comm}, args...), address(at), address(n))...))
		require.Contains(t, r.text(), text)
	}
	refused(pair(t, "Ascend910_9391")[0], "HcclRankGraphGetLinks", "a rank table of version 1.2", 0, 0, 1)
	refused(pair(t, "Ascend310P3")[0], "HcclRankGraphGetLayers", "the topology of an Ascend310P3")
	refused(member(t, "Ascend910_9391", cluster(2, 2, 0), 1, 1), "HcclRankGraphGetLayers", "the super pod of rank 0")
	refused(member(t, "Ascend910B1", strings.ReplaceAll(cluster(2, 1, 0), "device_ip", "other"), 0, 0), "HcclRankGraphGetLinks", "a rank table with device_ip", 1, 0, 1)
}
