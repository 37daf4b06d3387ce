package cshim

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestReadable: one line is made of the texts of CANN's releases, with the reason and without what belongs to other calls.
func TestReadable(t *testing.T) {
	const probe = "[PID: 7] 2026-11-28-10:00:00.000.001 Invalid_Call(EE1018): the device is not set.\n        Solution: call aclrtSetDevice\n        TraceBack (most recent call last):\n        rtGetDevice failed[FUNC:GetDevice][FILE:api.cc][LINE:7]\n"
	for name, c := range map[string]struct {
		code int32
		text string
		want string
	}{
		"none":             {161001, "", ""},
		"plain":            {107000, "the size is 0", "the size is 0"},
		"identifier alone": {107000, "EE1003: size", "EE1003: size"},
		"argument": {161002, "[PID: 7] 2026-11-28-10:00:00.000.000 AclNN_Parameter_Error(EZ1001): self has 9 dimensions.\n        Solution: use at most 8\n" +
			"        TraceBack (most recent call last):\n        aclnnAdd failed[FUNC:Check][FILE:add.cpp][LINE:9]\n", "EZ1001: self has 9 dimensions.; Solution: use at most 8"},
		"no solution": {161002, "EZ1001[PID: 7] 2026-11-28-10:00:00.000.000 AclNN_Parameter_Error(EZ1001): self is null\n        Solution: N/A\n", "EZ1001: self is null"},
		"inner, before 8.5": {561103, "EZ9999: Inner Error!\nEZ9999: 2025-04-02-00:54:30.240.432  Parse dynamic kernel config fail.\n        TraceBack (most recent call last):\n        AclOpKernelInit failed opType\n",
			"EZ9999: Parse dynamic kernel config fail; AclOpKernelInit failed opType"},
		"inner": {561103, "EZ9999[PID: 7] 2025-12-10-10:52:09.632.838 AclNN_Inner_Error(EZ9999):  Parse dynamic kernel config fail.\n        TraceBack (most recent call last):\n       Failed to ParseDynamicKernels.[FUNC:Parse][FILE:a.cpp][LINE:1]\n",
			"EZ9999: Parse dynamic kernel config fail; Failed to ParseDynamicKernels."},
		"a probe":         {561103, probe, ""},
		"of the call":     {107002, probe, "EE1018: the device is not set.; Solution: call aclrtSetDevice"},
		"after a probe":   {161002, probe + "[PID: 7] 2026-11-28-10:00:00.000.002 AclNN_Parameter_Error(EZ1001): self is null\n", "EZ1001: self is null"},
		"a call before":   {161002, "[PID: 7] 2026-11-28-10:00:00.000.001 AclNN_Parameter_Error(EZ1001): x is null\n[PID: 7] 2026-11-28-10:00:00.000.002 AclNN_Parameter_Error(EZ1001): self is null\n", "EZ1001: self is null"},
		"memory":          {561000, "[PID: 7] 2026-11-28-10:00:00.000.001 Out_Of_Memory(EL0004): Failed to allocate memory\nEZ9999: Inner Error!\nEZ9999: [PID: 7] 2026-11-28-10:00:00.000.002 no workspace[FUNC:Run][FILE:a.cpp][LINE:1]\n", "EL0004: Failed to allocate memory; EZ9999: no workspace"},
		"several at once": {161002, "EZ1001: first line\nsecond line", "EZ1001: first line; second line"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, readable(c.code, c.text)) })
	}
}
