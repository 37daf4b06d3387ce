package rt

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sharedFile is a memory file that other processes of the same user can open by process id and
// descriptor. Its last page lists who may open it: a magic number, whether process ids are checked,
// and the ids.
type sharedFile struct {
	*os.File
	size uint64
}

const (
	shareMagic = 0x43414e4e50485953
	sharePage  = 4096
	maxPids    = (sharePage - 24) / 4
)

func newSharedFile(n uint64) (sharedFile, error) {
	f, err := newMemoryFile(int64(n) + sharePage)
	return sharedFile{f, n}, err
}

// newMemoryFile creates a zeroed, anonymous memory file.
func newMemoryFile(n int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("cann-emu-memory", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "device memory")
	if err := f.Truncate(n); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// name returns one word by which other processes can open the file.
func (f sharedFile) name() uint64 { return shareName(os.Getpid(), f.Fd()) }

func shareName(pid int, fd uintptr) uint64 { return uint64(pid)<<32 | uint64(fd) }

// admit sets which processes may open the file.
func (f sharedFile) admit(check bool, pids []int32) error {
	page := make([]byte, 24, 24+4*len(pids))
	binary.LittleEndian.PutUint64(page, shareMagic)
	if check {
		page[8] = 1
	}
	binary.LittleEndian.PutUint64(page[16:], uint64(len(pids)))
	for _, pid := range pids {
		page = binary.LittleEndian.AppendUint32(page, uint32(pid))
	}
	_, err := f.WriteAt(page, int64(f.size))
	return err
}

// openShared opens a shared file of this or another process.
func openShared(name uint64) (sharedFile, error) {
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", name>>32, uint32(name)), os.O_RDWR, 0)
	if err != nil {
		return sharedFile{}, err
	}
	f, err := examineShared(file)
	if err != nil {
		_ = file.Close()
	}
	return f, err
}

func examineShared(file *os.File) (sharedFile, error) {
	info, err := file.Stat()
	if err != nil {
		return sharedFile{}, err
	}
	at := info.Size() - sharePage
	if at <= 0 {
		return sharedFile{}, fmt.Errorf("a file of %d bytes is not exported memory", info.Size())
	}
	page := make([]byte, sharePage)
	if _, err := file.ReadAt(page, at); err != nil {
		return sharedFile{}, err
	}
	n := binary.LittleEndian.Uint64(page[16:])
	if binary.LittleEndian.Uint64(page) != shareMagic || n > maxPids {
		return sharedFile{}, fmt.Errorf("it is not exported memory")
	}
	var pids []int32
	for i := range n {
		pids = append(pids, int32(binary.LittleEndian.Uint32(page[24+4*i:])))
	}
	if page[8] == 1 && !slices.Contains(pids, int32(os.Getpid())) {
		return sharedFile{}, fmt.Errorf("process %d is not allowed; the exporter has to set its pid", os.Getpid())
	}
	return sharedFile{file, uint64(at)}, nil
}

// keySize is the length in bytes, with the NUL, of the keys of aclrtIpcMem… and aclrtNotify….
const keySize = 65

func writeKey(out Out[byte], size int, name uint64) {
	key := make([]byte, size)
	copy(key, fmt.Sprintf("cann-emu-%016x", name))
	out.Fill(key)
}

func parseKey(key string) (name uint64, err error) {
	digits, ok := strings.CutPrefix(key, "cann-emu-")
	if !ok || len(digits) != 16 {
		return 0, fmt.Errorf("%q is no key of the emulator", key)
	}
	_, err = fmt.Sscanf(digits, "%x", &name)
	return name, err
}
