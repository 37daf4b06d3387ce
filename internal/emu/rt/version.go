package rt

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// The emulator reports version CANN 8.1.RC1, whose API its table describes.
const (
	apiMajor, apiMinor, apiPatch = 1, 13, 0
	cannVersion                  = "8.1.RC1"
	cannNumber                   = 8*10000000 + 1*100000 - 100 + 1 // release candidate 1 of 8.1.0
)

// packageVersion is aclCANNPackageVersion.
type packageVersion struct {
	version               [128]byte
	major, minor, release [64]byte
	_                     [64]byte // patch
	_                     [128]byte
}

func (r *Runtime) aclrtGetVersion(majorVersion, minorVersion, patchVersion Out[int32]) Code {
	majorVersion.Set(apiMajor)
	minorVersion.Set(apiMinor)
	patchVersion.Set(apiPatch)
	return 0
}

func (r *Runtime) aclsysGetCANNVersion(t *Thread, name int32, version Out[packageVersion]) Code {
	if name < 0 || name > int32(abi.ACL_PKG_NAME_DRIVER) {
		return t.Fail(InvalidParam, "EH0001: aclsysGetCANNVersion: package %d is unknown", name)
	}
	var v packageVersion
	copy(v.version[:], cannVersion)
	copy(v.major[:], "8")
	copy(v.minor[:], "1")
	copy(v.release[:], "RC1")
	version.Set(v)
	return 0
}

func (r *Runtime) aclsysGetVersionStr(_ In[byte], versionStr Out[byte]) Code {
	text := make([]byte, 128)
	copy(text, cannVersion)
	versionStr.Fill(text)
	return 0
}

func (r *Runtime) aclsysGetVersionNum(_ In[byte], versionNum Out[int32]) Code {
	versionNum.Set(cannNumber)
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
