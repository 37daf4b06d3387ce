package machine

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// waits are functions that make a stream wait for a call that may never come. On a device it waits
// for ever, too.
var waits = regexp.MustCompile(`^aclrtWaitAndResetNotify$|^aclrtValueWait$`)

// products are functions that read as many numbers of the host as a product of sizes says, which no slot holds.
var products = regexp.MustCompile(`^aclfftExec|^aclblasSgemmGroupedBatched$`)

// devices are the functions whose untyped pointers may be addresses of device memory. The others
// read or write those pointers on the host.
var devices = regexp.MustCompile(`^Hccl|^aclrtFree|^aclrtMem|^aclrtReduce|^aclrtRandom|^aclrtValue|^aclrtIpc|^aclrtMap|^aclrtUnmap|^aclrtRelease|^aclrtPointer|^aclrtHost|OverflowStatus$|TensorAddr$|^aclrtCmo|^aclmdlRICond`)

// lists are the untyped pointers of collectives to numbers on the host.
var lists = regexp.MustCompile(`(?i)count|displs`)

const (
	slotSize = 8 << 10
	slots    = 32
	rootSlot = slots - 1 // the last root info
)

// surface calls C functions with random arguments: live handles, stale ones, null pointers, device
// addresses, impossible sizes. Host memory is as large as the arguments state, because a C program that
// lies about it crashes with any library.
type surface struct {
	tb      testing.TB
	m       *Machine
	table   *abi.Table
	thread  *rt.Thread
	random  *rand.Rand
	memory  []byte // one slot for each argument that points to memory
	handles map[string][]uint64
	void    map[string]bool   // types of handles that C knows as void *, or as a pointer to a struct that nobody sees
	destroy map[string]string // functions that destroy handles, by type
	device  [4]uint64         // addresses of device memory, of device 0 where the index is even, else of device 1
	pair    [2]uint64         // the ranks of a communicator
	calls   int
	wrong   map[string]string // errors of functions whose code panicked
}

func newSurface(tb testing.TB, table *abi.Table, seed uint64) *surface {
	r := rt.NewMachine(rt.Config{Devices: 2, Memory: 16 << 20, SoC: "Ascend910B1"})
	m := &Machine{rt: r, library: nn.New(r)}
	implemented := implementations(r, m.library)
	for id, f := range functions {
		m.calls[id] = implemented[f.name]
	}
	memory, err := unix.Mmap(-1, 0, slotSize*slots, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(tb, err)
	s := &surface{
		tb: tb, m: m, table: table, thread: new(rt.Thread), random: rand.New(rand.NewPCG(seed, 1)), memory: memory,
		handles: map[string][]uint64{}, void: map[string]bool{}, destroy: map[string]string{}, wrong: map[string]string{},
	}
	for _, t := range table.Typedefs {
		s.void[t.Name] = s.void[t.Name] || t.Target == "void *" || strings.HasPrefix(t.Target, "struct ") && strings.HasSuffix(t.Target, " *")
	}
	for _, f := range table.Functions {
		if strings.Contains(f.Name, "Destroy") && len(f.Params) == 1 {
			s.destroy[strings.TrimSuffix(plain(f.Params[0].Type), "*")] = f.Name
		}
	}
	s.settle()
	return s
}

// close ends the machine as a program that exits does.
func (s *surface) close() {
	for kind := range s.handles {
		s.forget(kind, 0)
	}
	for device := range uint64(2) {
		s.named("aclrtResetDeviceForce", device)
	}
	s.named("aclFinalize")
	require.NoError(s.tb, unix.Munmap(s.memory))
}

// settle gives the program devices, memory and communicators again, since random calls take them away.
func (s *surface) settle() {
	s.named("aclInit", 0)
	for i, old := range s.device {
		s.named("aclrtSetDevice", uint64(i%2))
		if old != 0 {
			s.named("aclrtFree", old)
		}
		s.device[i] = 0
		if s.named("aclrtMalloc", s.slot(0), 64<<10, 0) == 0 {
			s.device[i] = s.word(0)
		}
	}
	devices := s.clear(0)
	s.forget("HcclComm", 0)
	for _, comm := range s.pair {
		s.named("HcclCommDestroy", comm)
	}
	s.pair = [2]uint64{}
	if s.named("HcclCommInitAll", 1, devices, s.slot(1)) == 0 {
		s.keep("HcclComm", s.word(1))
	}
	unsafe.Slice((*int32)(s.at(0)), 2)[1] = 1
	if s.named("HcclCommInitAll", 2, devices, s.slot(1)) == 0 {
		s.pair = [2]uint64(unsafe.Slice((*uint64)(s.at(1)), 2))
	}
	s.named("HcclGetRootInfo", s.slot(rootSlot))
	s.named("aclrtSetDevice", 0)
}

// named calls a function that is not a phase of an operator.
func (s *surface) named(name string, words ...uint64) uint64 {
	i := id(s.tb, name)
	return s.within(name, func() uint64 { return s.m.Call(s.thread, i, append(words, make([]uint64, 8)...)) })
}

// within makes a call. It ends the process when the call does not return.
func (s *surface) within(name string, call func() uint64) uint64 {
	timer := time.AfterFunc(60*time.Second, func() { panic("surface: " + name + " does not return") })
	defer timer.Stop()
	s.calls++
	result := call()
	if message := text(s.thread); strings.Contains(message, "internal error") {
		s.wrong[name] = message
	}
	return result
}

func (s *surface) at(i int) unsafe.Pointer { return unsafe.Pointer(&s.memory[i*slotSize]) }

func (s *surface) slot(i int) uint64 { return uint64(uintptr(s.at(i))) }

func (s *surface) word(i int) uint64 { return *(*uint64)(s.at(i)) }

// clear zeroes a slot and returns its address.
func (s *surface) clear(i int) uint64 {
	clear(s.memory[i*slotSize : (i+1)*slotSize])
	return s.slot(i)
}

// fill writes small numbers to a slot, as sizes and indexes are, and returns its address.
func (s *surface) fill(i int) uint64 {
	address := s.clear(i)
	numbers := unsafe.Slice((*int64)(s.at(i)), 16)
	for k := range numbers {
		numbers[k] = s.size(false)
	}
	return address
}

// pick returns one of some values.
func pick[T any](s *surface, all []T) T { return all[s.random.IntN(len(all))] }

// size returns a small number, or often an impossible one if it may be wild.
func (s *surface) size(wild bool) int64 {
	switch n := s.random.IntN(32); {
	case wild && n < 4:
		return pick(s, []int64{-1, math.MinInt64, math.MaxInt64, 1 << 62, 1<<62 + 1, 1 << 48, 1 << 33, math.MaxUint32, math.MaxInt32})
	case n == 5 && wild:
		return -s.random.Int64N(5)
	case n == 6:
		return s.random.Int64N(512)
	}
	return s.random.Int64N(9)
}

// handle returns a handle of a C type: a live one, a stale one, one of another type, any number, or null.
func (s *surface) handle(kind string) uint64 {
	all := s.handles[kind]
	switch n := s.random.IntN(32); {
	case n == 0 || len(all) == 0 && n > 2:
		return 0
	case n == 1:
		return s.random.Uint64N(1 << uint(1+s.random.IntN(63)))
	case n == 2 || len(all) == 0:
		for _, other := range s.handles {
			if len(other) > 0 {
				return pick(s, other)
			}
		}
		return 0
	}
	return pick(s, all)
}

// keep remembers a handle, which another call may have destroyed already.
func (s *surface) keep(kind string, handle uint64) {
	if handle != 0 {
		s.handles[kind] = append(s.handles[kind], handle)
		s.forget(kind, 32)
	}
}

// forget destroys the oldest handles of a type until some are left.
func (s *surface) forget(kind string, left int) {
	for all := s.handles[kind]; len(all) > left; all = all[1:] {
		s.handles[kind] = all[1:]
		if name, ok := s.destroy[kind]; ok {
			s.named(name, all[0])
		}
	}
}

// plain removes const and spaces from a C type.
func plain(kind string) string {
	return strings.ReplaceAll(strings.ReplaceAll(kind, "const", ""), " ", "")
}

// opaque reports whether a type is a struct that the table does not describe, so that a pointer to it
// is a handle.
func (s *surface) opaque(base string) bool {
	class, _ := s.table.Class(base)
	return strings.HasPrefix(base, "acl") && base != "aclrtExceptionInfo" && class != abi.FuncPtr && !s.void[base] && !strings.HasSuffix(base, "*") &&
		!slices.ContainsFunc(s.table.Records, func(r abi.Record) bool { return r.Name == base }) &&
		!slices.ContainsFunc(s.table.Constants, func(c abi.Constant) bool { return c.Enum == base })
}

// device reports whether an untyped pointer may be an address of device memory.
func device(f *abi.Function, p abi.Param) bool {
	return devices.MatchString(f.Name) && !lists.MatchString(p.Name)
}

// onHost reports whether a function reads or writes host memory behind a parameter.
func (s *surface) onHost(f *abi.Function, p abi.Param) bool {
	kind := plain(p.Type)
	switch {
	case p.Class != abi.Pointer && p.Class != abi.String || s.void[kind]:
		return false
	case kind == "void*":
		return !device(f, p)
	}
	return !s.opaque(strings.TrimSuffix(kind, "*"))
}

// argument makes argument i of a function. wild means that impossible sizes are possible, because no
// host memory has that size.
func (s *surface) argument(f *abi.Function, i int, wild bool) uint64 {
	p := f.Params[i]
	kind := plain(p.Type)
	i %= rootSlot
	switch p.Class {
	case abi.FuncPtr:
		return 0
	case abi.Double:
		return math.Float64bits(float64(s.size(true)) / 4)
	case abi.Float:
		return uint64(math.Float32bits(float32(s.size(true)) / 4))
	case abi.String:
		s.clear(i)
		copy(s.memory[i*slotSize:], pick(s, []string{"", "x", "sum", "BSND", "constant", "Ascend910B1", "\xff", strings.Repeat("long", 300)}))
		return s.slot(i)
	case abi.Pointer:
		return s.pointer(f, p, i, wild)
	case abi.Int, abi.Uint, abi.Enum, abi.DType, abi.Bool:
		if strings.Contains(strings.ToLower(p.Name), "timeout") {
			return 1 // 0 and -1 are for ever
		}
		return uint64(s.size(wild))
	}
	return s.handle(strings.TrimSuffix(kind, "*"))
}

// pointer makes an argument that is a pointer or a handle.
func (s *surface) pointer(f *abi.Function, p abi.Param, i int, wild bool) uint64 {
	kind := plain(p.Type)
	base, _ := strings.CutSuffix(strings.ReplaceAll(kind, "[]", "*"), "*")
	switch {
	case s.void[kind]:
		return s.handle(kind)
	case kind == "void*" && device(f, p) && (wild || s.random.IntN(4) > 0):
		return pick(s, s.device[:]) + pick(s, []uint64{0, 0, 0, 32, 64, 1, 64<<10 - 32, 64 << 10})
	case s.random.IntN(32) == 0:
		return 0
	case f.Name == "acltdtSetQueueAttr": // a number, or the address of a name
		address := s.clear(i)
		*(*uint64)(s.at(i)) = address + 64
		return address
	case base == "HcclRootInfo" && f.Name != "HcclGetRootInfo":
		if s.random.IntN(4) == 0 {
			s.memory[rootSlot*slotSize+s.random.IntN(4108)] ^= 1 << s.random.IntN(8)
		}
		return s.slot(rootSlot)
	case s.opaque(base):
		return s.handle(base)
	case strings.HasSuffix(base, "*"): // an array of handles, or where to write one
		address := s.clear(i)
		handles := unsafe.Slice((*uint64)(s.at(i)), 8)
		for k := range handles {
			if s.opaque(strings.TrimSuffix(base, "*")) {
				handles[k] = s.handle(strings.TrimSuffix(base, "*"))
			}
		}
		return address
	case strings.HasPrefix(base, "acl") || strings.HasPrefix(base, "Hccl"):
		return s.clear(i)
	}
	return s.fill(i)
}

// harvest keeps the handles that a call has returned.
func (s *surface) harvest(f *abi.Function, result uint64) {
	for i, p := range f.Params {
		base, pointer := strings.CutSuffix(plain(p.Type), "*")
		if !pointer || strings.Contains(p.Type, "const") {
			continue
		}
		if kind := strings.TrimSuffix(base, "*"); s.void[base] && base != "HcclComm" || kind != base && s.opaque(kind) {
			s.keep(kind, s.word(i%rootSlot))
		}
	}
	if base, pointer := strings.CutSuffix(plain(f.Ret), "*"); pointer && s.opaque(base) {
		s.keep(base, result)
	}
}

// step makes a call of an operator, a collective, or another function.
func (s *surface) step() {
	switch n := s.random.IntN(1024); {
	case n < 4:
		s.settle()
	case n < 16:
		s.collective()
	case n < 256:
		s.tensor()
	case n < 512:
		s.operator(s.random.IntN(len(s.table.Operators)))
	default:
		s.function(s.random.IntN(len(functions)))
	}
}

// function calls function i, which is not a phase of an operator.
func (s *surface) function(i int) {
	f := &s.table.Functions[i]
	if waits.MatchString(f.Name) || products.MatchString(f.Name) || f.Variadic || slices.ContainsFunc(f.Params, func(p abi.Param) bool { return p.Class == abi.ByValue }) {
		return
	}
	host := slices.ContainsFunc(f.Params, func(p abi.Param) bool { return s.onHost(f, p) })
	wild := !host && s.random.IntN(2) == 0
	words := make([]uint64, len(f.Params)+8)
	for k := range f.Params {
		words[k] = s.argument(f, k, wild)
	}
	s.direct(f, words, wild)
	result := s.within(f.Name, func() uint64 { return s.m.Call(s.thread, i, words) })
	if s.m.calls[i] != nil && (functions[i].absent <= 0 || result == 0) {
		s.harvest(f, result)
	}
}

// direct gives a copy the kinds of memory that it asks for. Sizes may be wild between devices.
func (s *surface) direct(f *abi.Function, words []uint64, wild bool) {
	kind := slices.IndexFunc(f.Params, func(p abi.Param) bool { return plain(p.Type) == "aclrtMemcpyKind" })
	if kind < 0 {
		return
	}
	words[kind] = abi.ACL_MEMCPY_DEVICE_TO_DEVICE
	if !wild {
		words[kind] = s.random.Uint64N(4)
	}
	for k, p := range f.Params {
		onHost := p.Name == "src" && words[kind] <= abi.ACL_MEMCPY_HOST_TO_DEVICE ||
			p.Name == "dst" && (words[kind] == abi.ACL_MEMCPY_HOST_TO_HOST || words[kind] == abi.ACL_MEMCPY_DEVICE_TO_HOST)
		if onHost {
			words[k] = s.fill(k)
		}
	}
}

// collective makes the same call on both ranks of a communicator.
func (s *surface) collective() {
	i := id(s.tb, pick(s, []string{"HcclAllReduce", "HcclAllGather", "HcclReduceScatter", "HcclBroadcast", "HcclReduce", "HcclScatter", "HcclAlltoAll", "HcclBarrier"}))
	f := &s.table.Functions[i]
	words := make([]uint64, len(f.Params)+8)
	for k := range f.Params {
		words[k] = s.argument(f, k, true)
	}
	for rank, comm := range s.pair {
		s.named("aclrtSetDevice", uint64(rank))
		for k, p := range f.Params {
			switch plain(p.Type) {
			case "void*":
				words[k] = s.device[rank+k%2*2]
			case "HcclComm":
				words[k] = comm
			case "aclrtStream":
				words[k] = 0
			}
		}
		s.within(f.Name, func() uint64 { return s.m.Call(s.thread, i, words) })
	}
	s.named("aclrtSetDevice", 0)
}

// tensor makes a tensor in the device's memory, whose sizes are rarely impossible.
func (s *surface) tensor() {
	shape, strides := s.fill(0), s.fill(1)
	if s.random.IntN(32) == 0 {
		*(*int64)(s.at(0)) = s.size(true)
	}
	if s.random.IntN(4) > 0 {
		strides = 0
	}
	types := []dtype.Type{
		dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int64, dtype.Int8, dtype.Uint8, dtype.Bool, dtype.Float64, dtype.Complex64, dtype.Type(s.random.IntN(40)),
	}
	formats := []dtype.Format{dtype.ND, dtype.ND, dtype.ND, dtype.NCHW, dtype.FractalNZ, dtype.Format(s.random.IntN(60))}
	s.keep("aclTensor", s.named("aclCreateTensor", shape, s.random.Uint64N(5), uint64(pick(s, types)), strides, uint64(s.size(false)),
		uint64(pick(s, formats)), shape, s.random.Uint64N(5), pick(s, s.device[:])))
}

// operator runs both phases of an operator, the second sometimes with the executor of another call.
func (s *surface) operator(i int) {
	o := &op.Operators[i]
	f := &s.table.Operators[i].Function
	words := make([]uint64, len(o.Params)+2)
	wild := s.random.IntN(16) == 0
	for k := range o.Params {
		words[k] = s.argument(f, k, wild)
	}
	words[len(o.Params)], words[len(o.Params)+1] = s.clear(0), s.clear(1)
	if s.within(o.Name+abi.PhaseOne, func() uint64 { return s.m.Prepare(s.thread, i, words) }) != 0 {
		return
	}
	size, executor := s.word(0), s.word(1)
	s.keep("aclOpExecutor", executor)
	if s.random.IntN(16) == 0 {
		executor = s.handle("aclOpExecutor")
	}
	if size > 64<<10 {
		size = 0
	}
	s.within(o.Name, func() uint64 { return s.m.Execute(s.thread, i, s.device[0], size, executor, s.handle("aclrtStream")) })
}
