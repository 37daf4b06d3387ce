package acltest_test

import (
	"errors"
	"testing"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestSweep: a program that returns the errors that it gets, and closes what it opened, passes.
func TestSweep(t *testing.T) {
	var sweep acltest.Sweep
	sweep.Run(t, func(t *testing.T) (err error) {
		rt, err := acl.Open(acl.Config{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rt.Close()) }()
		dev, err := rt.Device(0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev.Close()) }()
		st, err := dev.NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		_, err = double(t, st, 1, 2, 3)
		return err
	})
}
