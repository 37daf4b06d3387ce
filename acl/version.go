package acl

import (
	"bytes"
	"errors"
	"fmt"

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
	major, minor, patch, err := aclrtGetVersion(0)
	if err != nil {
		return Version{}, wrap(err)
	}
	return Version{int(major), int(minor), int(patch)}, nil
}

// CANNVersion is the version of the installation, such as "8.1.RC1" (aclsysGetCANNVersion,
// or aclsysGetVersionStr where that is gone). Some installations lack the files it comes
// from; the error then has code 100003.
func (rt *Runtime) CANNVersion() (string, error) {
	if err := rt.usable("Runtime.CANNVersion"); err != nil {
		return "", err
	}
	var version aclCANNPackageVersion
	err := aclsysGetCANNVersion(0, abi.ACL_PKG_NAME_CANN, &version)
	var missing *cshim.SymbolError
	if errors.As(err, &missing) {
		err = aclsysGetVersionStr(0, &[]byte("runtime\x00")[0], &version.version[0])
	}
	if err != nil {
		return "", wrap(err)
	}
	text, _, _ := bytes.Cut(version.version[:], []byte{0})
	return string(text), nil
}
