//go:build !linux

package budget

import "time"

func threadTime() time.Duration { return time.Since(begin) }
