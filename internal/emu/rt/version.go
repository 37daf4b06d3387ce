package rt

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// The emulator answers as CANN 8.1.RC1, whose API its table describes.
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

func (r *Runtime) versionFunctions() table {
	return table{
		"aclrtGetVersion":        getVersion,
		"aclsysGetCANNVersion":   getCANNVersion,
		"aclsysGetVersionStr":    getVersionStr,
		"aclsysGetVersionNum":    getVersionNum,
		"aclrtGetSocName":        func(*Thread, []uint64) uint64 { return r.socName() },
		"aclrtGetRunMode":        getRunMode,
		"aclrtDeviceGetBareTgid": getTgid,
	}
}

func getVersion(t *Thread, a []uint64) uint64 {
	if a[0] == 0 || a[1] == 0 || a[2] == 0 {
		return t.null("aclrtGetVersion", "a version pointer")
	}
	Write[int32](a[0], apiMajor)
	Write[int32](a[1], apiMinor)
	Write[int32](a[2], apiPatch)
	return 0
}

func getCANNVersion(t *Thread, a []uint64) uint64 {
	if a[1] == 0 {
		return t.null("aclsysGetCANNVersion", "version")
	}
	if name := int32(a[0]); name < 0 || name > int32(abi.ACL_PKG_NAME_DRIVER) {
		return t.Fail(invalidParam, "EH0001: aclsysGetCANNVersion: package %d is unknown", name)
	}
	var v packageVersion
	copy(v.version[:], cannVersion)
	copy(v.major[:], "8")
	copy(v.minor[:], "1")
	copy(v.release[:], "RC1")
	Write(a[1], v)
	return 0
}

func getVersionStr(t *Thread, a []uint64) uint64 {
	if a[0] == 0 || a[1] == 0 {
		return t.null("aclsysGetVersionStr", "an argument")
	}
	var text [128]byte
	copy(text[:], cannVersion)
	Write(a[1], text)
	return 0
}

func getVersionNum(t *Thread, a []uint64) uint64 {
	if a[0] == 0 || a[1] == 0 {
		return t.null("aclsysGetVersionNum", "an argument")
	}
	Write[int32](a[1], cannNumber)
	return 0
}

// getRunMode: cards of these chips are always driven from a host.
func getRunMode(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtGetRunMode", "runMode")
	}
	Write(a[0], int32(abi.ACL_HOST))
	return 0
}

func getTgid(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtDeviceGetBareTgid", "pid")
	}
	Write(a[0], int32(os.Getpid()))
	return 0
}

// texts are pinned for C as long as the process lives.
var texts struct {
	sync.Mutex
	runtime.Pinner
}

// NewCString makes a C text that lives as long as the process.
func NewCString(s string) uint64 {
	b := append([]byte(s), 0)
	texts.Lock()
	defer texts.Unlock()
	texts.Pin(&b[0])
	return uint64(uintptr(unsafe.Pointer(&b[0])))
}
