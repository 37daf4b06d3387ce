package autograd_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goascend/cann/acl/acltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }
