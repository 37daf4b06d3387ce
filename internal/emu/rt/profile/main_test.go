package profile_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/emu/rt/profile"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is an emulated process with the functions of this package.
type process struct{ *rttest.Process }

func newProcess(t *testing.T) *process {
	p := rttest.New(t)
	p.Add(profile.New(p.Runtime).Functions())
	return &process{p}
}
