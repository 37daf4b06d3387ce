package acl

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Version is the version of the runtime's API, such as 1.13.0 in CANN 8.1.RC1.
type Version struct{ Major, Minor, Patch int }

// String is the form "1.13.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Version is the version of the runtime's API (aclrtGetVersion).
func (rt *Runtime) Version() (Version, error) {
	if err := rt.usable("Runtime.Version"); err != nil {
		return Version{}, err
	}
	c := cshim.Call{Out: 1<<0 | 1<<1 | 1<<2}
	if err := c.Do(getVersion, 0); err != nil {
		return Version{}, wrap(err)
	}
	return Version{int(int32(c.Args[0])), int(int32(c.Args[1])), int(int32(c.Args[2]))}, nil
}

// CANNVersion is the version of the installation, such as "8.1.RC1" (aclsysGetCANNVersion,
// or aclsysGetVersionStr where that is gone). Some installations lack the files it comes
// from; the error then has code 100003.
func (rt *Runtime) CANNVersion() (string, error) {
	if err := rt.usable("Runtime.CANNVersion"); err != nil {
		return "", err
	}
	var version [512]byte // aclCANNPackageVersion; the text comes first
	c := cshim.Call{Args: [cshim.Args]uint64{abi.ACL_PKG_NAME_CANN}, Host: unsafe.Pointer(&version), HostArg: 2}
	err := c.Do(getCANNVersion, 0)
	var missing *cshim.SymbolError
	if errors.As(err, &missing) {
		// The package's name goes in a word that C gets the address of: "runtime" and its NUL
		// fill it.
		name := *(*uint64)(unsafe.Pointer(&[8]byte{'r', 'u', 'n', 't', 'i', 'm', 'e'}))
		c = cshim.Call{Args: [cshim.Args]uint64{name}, Out: 1 << 0, Host: unsafe.Pointer(&version), HostArg: 2}
		err = c.Do(getVersionStr, 0)
	}
	if err != nil {
		return "", wrap(err)
	}
	text, _, _ := bytes.Cut(version[:128], []byte{0})
	return string(text), nil
}
