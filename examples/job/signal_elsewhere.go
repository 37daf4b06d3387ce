//go:build !unix

package job

import "os"

// CANN exists for Linux only. Other systems have no signal that asks for a flight record.

var quits []os.Signal

func raise() {}
