package rt

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// cann is the release that the emulator reports: that of CANN_EMU_API, else the newest one.
func (r *Runtime) cann() string {
	releases := abi.Releases()
	return cmp.Or(r.config.API, releases[len(releases)-2])
}

// versionNumber weighs the parts of a release: 9.2.0-beta.1 is 1 more than 200 less than 9.2.0.
func versionNumber(release string) (n int32) {
	base, pre, _ := strings.Cut(strings.ToLower(strings.Replace(release, ".RC", ".0-rc.", 1)), "-")
	for i, part := range strings.Split(base, ".") {
		digit, _ := strconv.Atoi(part) // of a name in abi.Releases
		n += int32(digit) * [...]int32{10000000, 100000, 1000}[i]
	}
	if stage, count, ok := strings.Cut(pre, "."); ok {
		digit, _ := strconv.Atoi(count)
		n += int32(digit) - map[string]int32{"alpha": 300, "beta": 200, "rc": 100}[stage]
	}
	return n
}

// packageVersion is aclCANNPackageVersion.
type packageVersion struct {
	version               [128]byte
	major, minor, release [64]byte
	_                     [64]byte // patch
	_                     [128]byte
}

func (r *Runtime) aclrtGetVersion(majorVersion, minorVersion, patchVersion Out[int32]) Code {
	minor := int32(17) // ACL_MINOR_VERSION since CANN 9.0.0
	switch r.config.API {
	case abi.V81RC1:
		minor = 13
	case abi.V850:
		minor = 16
	}
	majorVersion.Set(1)
	minorVersion.Set(minor)
	patchVersion.Set(0)
	return 0
}

func (r *Runtime) aclsysGetCANNVersion(t *Thread, name int32, version Out[packageVersion]) Code {
	if name < 0 || name > int32(abi.ACL_PKG_NAME_DRIVER) {
		return t.Fail(InvalidParam, "EH0001: aclsysGetCANNVersion: package %d is unknown", name)
	}
	var v packageVersion
	copy(v.version[:], r.cann())
	for i, part := range strings.SplitN(r.cann(), ".", 3) {
		copy([][]byte{v.major[:], v.minor[:], v.release[:]}[i], part)
	}
	version.Set(v)
	return 0
}

func (r *Runtime) aclsysGetVersionStr(_ In[byte], versionStr Out[byte]) Code {
	text := make([]byte, 128)
	copy(text, r.cann())
	versionStr.Fill(text)
	return 0
}

func (r *Runtime) aclsysGetVersionNum(_ In[byte], versionNum Out[int32]) Code {
	versionNum.Set(versionNumber(r.cann()))
	return 0
}

func (r *Runtime) aclrtGetSocName() uintptr { return uintptr(r.socName()) }

// aclrtGetRunMode always reports the host mode, since a host drives cards with these chips.
func (r *Runtime) aclrtGetRunMode(runMode Out[int32]) Code {
	runMode.Set(int32(abi.ACL_HOST))
	return 0
}

func (r *Runtime) aclrtDeviceGetBareTgid(pid Out[int32]) Code {
	pid.Set(int32(os.Getpid()))
	return 0
}

// texts holds C strings that are pinned until the process ends.
var texts struct {
	sync.Mutex
	runtime.Pinner
}

// NewCString returns the address of a C string that lives until the process ends.
func NewCString(s string) uint64 {
	b := append([]byte(s), 0)
	texts.Lock()
	defer texts.Unlock()
	texts.Pin(&b[0])
	return uint64(uintptr(unsafe.Pointer(&b[0])))
}
