package ccl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// HCCL describes the ranks of a communicator in layers: those of a server (0), those that servers connect (1), and on Atlas A3, where
// these are servers of a super pod, those that super pods connect (2). The functions whose pages have the 950 alone read its topology
// from a file that describes the machine, which the emulator does not have; it exports and refuses them.

// position is where a rank's device is.
type position struct {
	server  int // in the order of the table, or of ranks
	pod     int // a super pod, or unknownPod
	device  int // its number in the server
	superID uint32
	ips     []netip.Addr // of its network; nil if nobody knows them
	chip    string       // the SoC of the device, "" for that of this process
}

const (
	unknownPod     = -1
	unknownSuperID = 0xFFFFFFFF
	noLayer        = 3 // the number of layers that any chip has
)

// rankLayer is the ranks of a communicator that a layer connects with each other, as one of them sees it.
type rankLayer struct {
	number uint32
	ranks  []uint32 // that this rank reaches, itself too
	sizes  []uint32 // of all groups of ranks that reach each other
}

// layersOf returns the layers of a communicator.
func (c *comm) layersOf(call string) ([]rankLayer, error) {
	l := c.library
	switch {
	case !strings.HasPrefix(l.rt.SoC(), "Ascend910B") && !l.shares():
		return nil, refuse(notSupported, "EI0003: %s: the emulator does not know the topology of an %s; it knows those of Atlas A2 and A3", call, l.rt.SoC())
	case c.positions == nil:
		return nil, refuse(notSupported, "EI0003: %s: %v has no ranks beside this one, as they are on a schedule; the emulator does not know where they would be", call, c)
	}
	servers := c.grouped(func(p position) int { return p.server })
	layers := []rankLayer{c.layer(0, servers)}
	if len(servers) == 1 {
		return layers, nil
	}
	all := slices.Concat(servers...)
	everyone := rankLayer{ranks: all, sizes: []uint32{uint32(c.size)}}
	if !l.shares() {
		everyone.number = 1
		return append(layers, everyone), nil
	}
	for r, p := range c.positions {
		if p.pod == unknownPod {
			return nil, refuse(notSupported, "EI0003: %s: the emulator does not know the super pod of rank %d of %v; make the communicator from a rank table of version 1.2 with super_pod_list", call, r, c)
		}
	}
	pods := c.grouped(func(p position) int { return p.pod })
	layers = append(layers, c.layer(1, pods))
	if len(pods) > 1 {
		everyone.number, everyone.ranks = 2, slices.Concat(pods...)
		layers = append(layers, everyone)
	}
	return layers, nil
}

// grouped groups the ranks whose positions have one number, which the function of returns. Groups have the order of their numbers, ranks
// the order of servers and ranks.
func (c *comm) grouped(of func(position) int) (groups [][]uint32) {
	order := make([]uint32, c.size)
	for r := range order {
		order[r] = uint32(r)
	}
	at := func(r uint32) position { return c.positions[r] }
	slices.SortStableFunc(order, func(a, b uint32) int { return at(a).server - at(b).server })
	slices.SortStableFunc(order, func(a, b uint32) int { return of(at(a)) - of(at(b)) })
	for i, r := range order {
		if i == 0 || of(at(r)) != of(at(order[i-1])) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], r)
	}
	return groups
}

// layer returns a layer whose groups are known.
func (c *comm) layer(number uint32, groups [][]uint32) rankLayer {
	y := rankLayer{number: number}
	for _, g := range groups {
		y.sizes = append(y.sizes, uint32(len(g)))
		if slices.Contains(g, uint32(c.rank)) {
			y.ranks = g
		}
	}
	return y
}

// layerOf returns a layer by its number.
func (c *comm) layerOf(call string, number uint32) (rankLayer, error) {
	layers, err := c.layersOf(call)
	if err != nil {
		return rankLayer{}, err
	}
	if int64(number) >= int64(len(layers)) {
		return rankLayer{}, refuse(badParameter, "EI0003: %s: netLayer is %d; %v has the layers 0 to %d", call, number, c, len(layers)-1)
	}
	return layers[number], nil
}

// handed is memory of a communicator that its functions have returned to the program. The communicator frees it when it is destroyed.
type handed struct {
	blocks [][]byte
	known  map[string]uintptr // what is there already, by its contents
}

// hand copies data into memory that stays until the communicator is destroyed, and returns its address.
func (c *comm) hand(call string, data []byte) (uintptr, error) {
	if len(data) == 0 {
		return 0, nil
	}
	l := c.library
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.left {
		return 0, refuse(badParameter, "EI0003: %s: %v is being destroyed", call, c)
	}
	if at, ok := c.handed.known[string(data)]; ok {
		return at, nil
	}
	b, err := scratch(len(data))
	if err != nil {
		return 0, refuse(int32(abi.HCCL_E_MEMORY), "EI0007: %s: %v", call, err)
	}
	copy(b, data)
	if c.handed.known == nil {
		c.handed.known = make(map[string]uintptr)
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	c.handed.blocks, c.handed.known[string(data)] = append(c.handed.blocks, b), at
	return at, nil
}

// free frees the memory. Nobody else has the communicator any more.
func (h *handed) free() {
	for _, b := range h.blocks {
		release(b)
	}
	*h = handed{}
}

// handNumbers sets a list and its length.
func (c *comm) handNumbers(call string, numbers []uint32, list rt.Out[rt.Address], n rt.Out[uint32]) error {
	at, err := c.hand(call, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 4*len(numbers)))
	if err != nil {
		return err
	}
	list.Set(rt.Address(at))
	n.Set(uint32(len(numbers)))
	return nil
}

// HcclRankGraphGetLayers lists the numbers of the layers.
func (l *Library) HcclRankGraphGetLayers(comm *comm, netLayers rt.Out[rt.Address], netLayerNum rt.Out[uint32]) error {
	const call = "HcclRankGraphGetLayers"
	layers, err := comm.layersOf(call)
	if err != nil {
		return err
	}
	var numbers []uint32
	for _, y := range layers {
		numbers = append(numbers, y.number)
	}
	return comm.handNumbers(call, numbers, netLayers, netLayerNum)
}

// HcclRankGraphGetRanksByLayer lists the ranks that this one reaches on a layer.
func (l *Library) HcclRankGraphGetRanksByLayer(comm *comm, netLayer uint32, ranks rt.Out[rt.Address], rankNum rt.Out[uint32]) error {
	const call = "HcclRankGraphGetRanksByLayer"
	y, err := comm.layerOf(call, netLayer)
	if err != nil {
		return err
	}
	return comm.handNumbers(call, y.ranks, ranks, rankNum)
}

// HcclRankGraphGetRankSizeByLayer counts these ranks.
func (l *Library) HcclRankGraphGetRankSizeByLayer(comm *comm, netLayer uint32, rankNum rt.Out[uint32]) error {
	y, err := comm.layerOf("HcclRankGraphGetRankSizeByLayer", netLayer)
	if err == nil {
		rankNum.Set(uint32(len(y.ranks)))
	}
	return err
}

// HcclRankGraphGetInstSizeListByLayer lists the sizes of all groups of ranks that reach each other on a layer.
func (l *Library) HcclRankGraphGetInstSizeListByLayer(comm *comm, netLayer uint32, instSizeList rt.Out[rt.Address], listSize rt.Out[uint32]) error {
	const call = "HcclRankGraphGetInstSizeListByLayer"
	y, err := comm.layerOf(call, netLayer)
	if err != nil {
		return err
	}
	return comm.handNumbers(call, y.sizes, instSizeList, listSize)
}

// HcclRankGraphGetTopoTypeByLayer says how a layer connects its ranks.
func (l *Library) HcclRankGraphGetTopoTypeByLayer(comm *comm, netLayer uint32, topoType rt.Out[int32]) error {
	y, err := comm.layerOf("HcclRankGraphGetTopoTypeByLayer", netLayer)
	switch {
	case err != nil:
		return err
	case y.number > 0:
		topoType.Set(abi.COMM_TOPO_CLOS)
	case l.shares():
		topoType.Set(abi.COMM_TOPO_910_93)
	default:
		topoType.Set(abi.COMM_TOPO_1DMESH)
	}
	return nil
}

// HcclGetHeterogMode says whether the ranks have chips of one kind.
func (l *Library) HcclGetHeterogMode(comm *comm, mode rt.Out[int32]) error {
	const call = "HcclGetHeterogMode"
	if comm.positions == nil {
		return refuse(notSupported, "EI0003: %s: %v has no ranks beside this one, as they are on a schedule", call, comm)
	}
	kinds := make(map[string]bool)
	for _, p := range comm.positions {
		kinds[chipKind(p.chip, l.rt.SoC())] = true
	}
	switch {
	case len(kinds) == 1:
		mode.Set(abi.HCCL_HETEROG_MODE_HOMOGENEOUS)
	case len(kinds) == 2 && kinds["Ascend910B"] && kinds["Ascend910_93"]:
		mode.Set(abi.HCCL_HETEROG_MODE_MIX_A2_A3)
	default:
		return refuse(internal, "EI0003: %s: %v has chips that HCCL does not mix", call, comm)
	}
	return nil
}

// chipKind returns the family of a chip.
func chipKind(chip, own string) string {
	if chip == "" {
		chip = own
	}
	for _, kind := range []string{"Ascend910_93", "Ascend910B", "Ascend310P", "Ascend950"} {
		if strings.HasPrefix(chip, kind) {
			return kind
		}
	}
	return chip
}

// The protocols and kinds of C's EndpointDesc and CommLink.
const (
	protocolNone = -1
	protocolHCCS = 0
	protocolRoCE = 1
	addressIPv4  = 0
	addressIPv6  = 1
	addressID    = 2
)

// endpoint is C's EndpointDesc.
type endpoint struct {
	protocol    int32
	addressKind int32
	address     [36]byte
	host        int32 // 0 for an endpoint of a device
	device      uint32
	superID     uint32
	server      uint32
	pod         uint32
	_           [44]byte
	_           [52]byte
}

// commLink is C's CommLink.
type commLink struct {
	version, magic, size, reserved uint32
	from, to                       endpoint
	protocol                       int32
	hops                           uint8
	rest                           [123]byte
}

const (
	linkMagic   = 0x0f0e0f0f
	linkVersion = 1
)

// protocolOf returns how a layer connects two ranks. Within a server all devices are connected by HCCS, as aclrtGetDevicesTopo says. As
// HCCL's source does, and its page of HcclRankGraphGetLinks does not, layer 1 of Atlas A3 connects ranks of one server too.
func (c *comm) protocolOf(from, to position, layer uint32) int32 {
	pods, one := c.library.shares(), from.server == to.server
	switch {
	case one && (layer == 0 || layer == 1 && pods):
		return protocolHCCS
	case one || layer == 0:
	case layer == 1 && !pods:
		return protocolRoCE
	case layer == 1 && from.pod == to.pod:
		return protocolHCCS
	case layer == 2 && pods && from.pod != to.pod:
		return protocolRoCE
	}
	return protocolNone
}

// endpoints returns the ends of a rank's links.
func (p position) endpoints(protocol int32) (all []endpoint) {
	ips := p.ips
	if protocol == protocolHCCS && ips == nil {
		ips = []netip.Addr{netip.IPv4Unspecified()} // a number is all that HCCS needs
	}
	for _, ip := range ips {
		var e endpoint
		raw := unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e))
		for i := range raw {
			raw[i] = 0xFF // what HCCL leaves
		}
		e.protocol, e.addressKind, e.host = protocol, addressIPv4, 0
		if ip.Is6() {
			e.addressKind = addressIPv6
		}
		if protocol == protocolHCCS {
			e.addressKind = addressID
		}
		copy(e.address[:], ip.AsSlice())
		e.device, e.superID, e.server, e.pod = uint32(p.device), p.superID, uint32(p.server), uint32(max(p.pod, 0))
		all = append(all, e)
	}
	return all
}

// HcclRankGraphGetLinks lists the links by which a layer connects two ranks; there are none if it does not.
func (l *Library) HcclRankGraphGetLinks(comm *comm, netLayer, srcRank, dstRank uint32, links rt.Out[rt.Address], linkNum rt.Out[uint32]) error {
	const call = "HcclRankGraphGetLinks"
	if _, err := comm.layersOf(call); err != nil {
		return err
	}
	for _, r := range []uint32{srcRank, dstRank} {
		if err := comm.checkRank(call, "rank", r); err != nil {
			return err
		}
	}
	switch {
	case srcRank == dstRank:
		return refuse(badParameter, "EI0003: %s: srcRank and dstRank are both %d", call, srcRank)
	case netLayer >= noLayer:
		return refuse(badParameter, "EI0003: %s: netLayer is %d; there are at most %d layers", call, netLayer, noLayer)
	}
	from, to := comm.positions[srcRank], comm.positions[dstRank]
	protocol := comm.protocolOf(from, to, netLayer)
	var all []commLink
	if protocol != protocolNone {
		if protocol == protocolRoCE && (from.ips == nil || to.ips == nil) {
			return refuse(notSupported, "EI0003: %s: the emulator does not know the addresses of devices of %v; make the communicator from a rank table with device_ip", call, comm)
		}
		if l.shares() && (from.superID == unknownSuperID || to.superID == unknownSuperID) {
			return refuse(notSupported, "EI0003: %s: the emulator does not know the numbers that devices of %v have in their super pod; make the communicator from a rank table of version 1.2", call, comm)
		}
		for _, a := range from.endpoints(protocol) {
			for _, b := range to.endpoints(protocol) {
				k := commLink{version: linkVersion, magic: linkMagic, size: uint32(unsafe.Sizeof(commLink{})), from: a, to: b, protocol: protocol, hops: 1}
				for i := range k.rest {
					k.rest[i] = 0xFF
				}
				all = append(all, k)
			}
		}
	}
	at, err := comm.hand(call, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*int(unsafe.Sizeof(commLink{}))))
	if err != nil {
		return err
	}
	links.Set(rt.Address(at))
	linkNum.Set(uint32(len(all)))
	return nil
}

// readAddresses reads the device_ip of a table.
func readAddresses(text string) (ips []netip.Addr, err error) {
	for s := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("device_ip %q is no list of addresses", text)
		}
		ips = append(ips, ip)
	}
	return ips, nil
}
