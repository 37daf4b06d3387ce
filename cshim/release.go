package cshim

import "sync"

// InstalledRelease returns the newest release of CANN whose runtime functions are all in the installed libraries, or
// a *LibraryError. It looks for a few hundred functions, once.
func InstalledRelease() (string, error) { return installed() }

var installed = sync.OnceValues(func() (release string, err error) {
	if _, err := Opened(ACL); err != nil {
		return "", err
	}
	for _, r := range came {
		for _, name := range r.functions {
			if _, err := resolve(ACL, name); err != nil {
				return release, nil
			}
		}
		release = r.release
	}
	return release, nil
})
